"""Scenes for the gateway's wire side, on a clock that jumps."""

from collections.abc import Callable, Coroutine

from common.wire.messages.submit import Submit
from services.gateway.app import GatewayApp
from services.gateway.exchange import Exchange
from services.gateway.streams import StreamState
from tests.support.gateway import FakeCluster, row, running_app, submit, until
from tests.support.sim.loop import warped

Play = Callable[[GatewayApp, FakeCluster], Coroutine[object, object, None]]


def played(play: Play) -> None:
    async def main() -> None:
        cluster = FakeCluster()
        async with running_app(cluster) as app:
            await play(app, cluster)

    warped(main)


async def state(exchange: Exchange, wanted: StreamState) -> None:
    await until(lambda: exchange.streams[0].state is wanted, limit_s=20)


async def started(app: GatewayApp, cluster: FakeCluster) -> tuple[Exchange, Submit]:
    """A stream that is placed and has its first token."""
    exchange = submit(app)
    asked = await cluster.submits.get()
    cluster.place(asked)
    cluster.from_worker(row(asked.key, [65]))
    await state(exchange, StreamState.STREAMING)
    await until(lambda: len(cluster.worker.port.accepted) == 1)
    return exchange, asked
