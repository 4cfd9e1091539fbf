"""What must hold after a run, told as a list of what does not.

Of every request: the right text, one ending, a failure only for a death that explains it. Of the
cluster, once it is quiet and every lease has run out: nothing is held for anybody, and the router
believes what is true.
"""

from collections.abc import Iterator, Sequence

from common.domain.errors import ErrorCode
from common.domain.ids import ProcessId
from common.domain.peer import Medium
from common.worker.worker import Worker
from services.gateway.streams import StreamState
from services.router.index import Holder
from tests.support.sim.load import End, Outcome
from tests.support.sim.world import World

GATEWAY_SLEPT = frozenset(
    {
        ErrorCode.WORKER_LOST,
        ErrorCode.ROUTER_LOST,
        ErrorCode.NO_WORKER,
    }
)
NOTICED_S = 4.0
"""After so long everybody acts on a death or a birth."""


def of_requests(world: World, outcomes: Sequence[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        for problem in _of_request(world, outcome):
            yield f"{outcome.request.name} at {outcome.request.at:.3f}: {problem}"


def _of_request(world: World, outcome: Outcome) -> Iterator[str]:
    request = outcome.request
    if outcome.ends != 1:
        yield f"ended {outcome.ends} times"
    for choice, text in enumerate(outcome.texts):
        wanted = request.expected(choice)
        if outcome.end is End.FINISHED and text != wanted:
            yield f"choice {choice} is {text!r} and not {wanted!r}"
        if not wanted.startswith(text):
            yield f"choice {choice} goes {text!r} where {wanted!r} is right"
        finish = outcome.finishes[choice]
        if outcome.end is End.FINISHED and finish is not request.finish(choice):
            yield f"choice {choice} ended with {finish}"
    exchange = outcome.exchange
    if exchange is not None and outcome.end is not End.CUT:
        if not exchange.ended:
            yield f"its stream is {exchange.streams[0].state.name}"
        if outcome.end is End.FINISHED and exchange.streams[0].state is not StreamState.FINISHED:
            yield f"finished, but its stream is {exchange.streams[0].state.name}"
    if outcome.end is End.FAILED and not _explained(world, outcome):
        yield f"failed for no reason: {outcome.failure}"
    if outcome.end in (End.UNREACHED, End.CUT) and not _was_out(world, "gateway", outcome):
        yield f"{outcome.end.value}, but the gateway lived"


def _explained(world: World, outcome: Outcome) -> bool:
    """A frozen gateway may believe anything of the others."""
    assert outcome.failure is not None
    if _was_out(world, "gateway", outcome):
        return outcome.failure.code in GATEWAY_SLEPT
    match outcome.failure.code:
        case ErrorCode.WORKER_LOST:
            stream = outcome.exchange.streams[0] if outcome.exchange is not None else None
            writer = stream.writer if stream is not None else None
            who = ("decode", "prefill") if writer is None else (writer.name,)
            return any(_was_out(world, name, outcome, asked=False) for name in who)
        case ErrorCode.ROUTER_LOST:
            return _was_out(world, "router", outcome)
        case ErrorCode.NO_WORKER:
            return _was_out(world, "router", outcome) or _was_out(world, "decode", outcome)
        case _:
            return False


def _was_out(world: World, who: str, outcome: Outcome, asked: bool = True) -> bool:
    """Was a process of that name or role away while the request lived, or not long before?
    `asked`: having been asked to go counts."""
    first, last = outcome.request.at - NOTICED_S, outcome.ended_at
    return any(
        outage.me.name.startswith(who)
        and (asked or not outage.asked)
        and outage.since <= last
        and outage.until >= first
        for outage in world.outages
    )


def of_quiet_cluster(world: World) -> Iterator[str]:
    for name, running in world.running.items():
        extra = set(running.life.tasks()) - running.started
        if extra:
            yield f"{name} still runs {sorted(extra)}"
    for name, worker in world.workers().items():
        for problem in _of_worker(worker):
            yield f"{name}: {problem}"
    yield from _of_router(world)
    yield from _of_gateway(world)
    yield from _of_store(world)


def _of_worker(worker: Worker) -> Iterator[str]:
    status = worker.status()
    for what in (
        "attempts",
        "hand_offs",
        "unacknowledged",
        "running",
        "waiting",
        "blocks_used",
        "blocks_pinned",
    ):
        if status[what]:
            yield f"{what} {status[what]}"
    if not worker.ready():
        yield "is not ready"
    engine = worker._node.host.engine
    engine.cache.check_invariants()
    if engine.cache.used:
        yield f"the engine uses {engine.cache.used} blocks"
    if worker._node.store.open_offers:
        yield f"{worker._node.store.open_offers} open offers"


def _of_router(world: World) -> Iterator[str]:
    router = world.router
    if router is None:
        return
    router.attempts.check_invariants()
    if len(router.attempts):
        yield f"router: attempts {router.attempts.by_state()}"
    if router.fleet.book._shares:
        yield f"router: load of {sorted(map(str, router.fleet.book._shares))}"
    alive = {running.life.me for running in world.running.values()}
    held = {holder.process for holder in router.fleet.index._holders.values()}
    for dead in sorted(held - alive):
        yield f"router: the index knows blocks of {dead}, which is dead"
    members = {member.ref.id for member in router.fleet.members.all()}
    missing = alive - members - {router._port.me}
    if missing or members - alive:
        yield f"router: misses {sorted(missing)}, believes in {sorted(members - alive)}"
    for name, worker in world.workers().items():
        units = [
            unit for block in worker._node.host.engine.cache.contents() for unit in block.units
        ]
        yield from _indexed(world, world.running[name].life.me, Medium.DEVICE, set(units))
    if world.store is not None:
        stored = {unit for block in world.store.stock.visible() for unit in block.units}
        yield from _indexed(world, world.store._port.me, Medium.HOST, stored)


def _indexed(world: World, me: ProcessId, medium: Medium, true: set[bytes]) -> Iterator[str]:
    assert world.router is not None
    index = world.router.fleet.index
    number = index._numbers.get(Holder(me, medium))
    believed = index._tree.held(number) if number is not None else set()
    if believed != true:
        yield (
            f"router: of {me} the index has {len(believed - true)} units too many, "
            f"{len(true - believed)} of {len(true)} are missing"
        )


def _of_gateway(world: World) -> Iterator[str]:
    gateway = world.gateway
    if gateway is None:
        return
    if len(gateway.attempts):
        yield f"gateway: {len(gateway.attempts)} streams"
    if not gateway.desk.ready:
        yield f"gateway: not ready, {gateway.desk.refusal()}"


def _of_store(world: World) -> Iterator[str]:
    store = world.store
    if store is None:
        return
    slots = store.stock.slots()
    if len(store.stock.leases) or slots["leased"] or slots["filling"]:
        yield f"kvstore: {len(store.stock.leases)} leases, slots {slots}"
    if store.stock.shelf is not None:
        store.stock.shelf.directory.check_invariants()
