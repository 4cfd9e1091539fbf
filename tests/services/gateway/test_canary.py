"""Ready only after a request has gone through the whole path, and again after every loss."""

import asyncio
from dataclasses import replace

from common.domain.errors import ErrorCode
from common.wire.messages import Message
from common.wire.messages.submit import Failed, Submit
from common.wire.port import Link
from tests.support.gateway import CARD, FakeCluster, make_app, prompt_of, running_app, until
from tests.support.sim.loop import warped


def test_the_canary_asks_for_two_tokens_of_hello() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        async with running_app(cluster):
            (asked,) = cluster.router.kept(Submit)
            assert isinstance(asked, Submit)
            assert bytes(prompt_of(asked)) == b"Hello"
            assert asked.sampling.max_tokens == 2
            assert asked.sampling.ignore_eos

    warped(main)


def test_not_ready_while_the_canary_gets_no_answer_and_tried_again() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cluster.answer_canary = False
        app = make_app(cluster)
        app.start()
        alive = asyncio.create_task(cluster.keep_alive())
        await asyncio.sleep(25)
        assert not app.desk.ready
        assert 2 <= len(cluster.router.kept(Submit)) <= 4
        cluster.answer_canary = True
        await until(lambda: app.desk.ready, limit_s=15)
        alive.cancel()
        await app.stop()

    warped(main)


def test_a_refused_canary_backs_off() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cluster.answer_canary = False
        route = cluster.router.react

        def refuse(link: Link, message: Message) -> None:
            route(link, message)
            if isinstance(message, Submit):
                cluster.from_router(Failed(message.key, ErrorCode.OVERLOADED, "no"))

        cluster.router.react = refuse
        app = make_app(cluster)
        app.start()
        alive = asyncio.create_task(cluster.keep_alive())
        await asyncio.sleep(5)
        assert 8 <= len(cluster.router.kept(Submit)) <= 11
        alive.cancel()
        await app.stop()

    warped(main)


def test_proven_again_after_the_workers_were_gone_or_the_model_changed() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        async with running_app(cluster) as app:
            cluster.show(replace(cluster.view, decode=0))
            await until(lambda: not app.desk.ready)
            cluster.show(replace(cluster.view, decode=1))
            await until(lambda: app.desk.ready)
            assert len(cluster.router.kept(Submit)) == 2
            cluster.show(replace(cluster.view, card=replace(CARD, weights_digest="v" * 64)))
            await until(lambda: len(cluster.router.kept(Submit)) == 3)
            await until(lambda: app.desk.ready)
            cluster.show(replace(cluster.view, decode=5))
            await asyncio.sleep(1)
            assert len(cluster.router.kept(Submit)) == 3

    warped(main)


def test_a_cluster_that_flaps_while_the_canary_is_under_way_is_proven_in_the_end() -> None:
    async def main() -> None:
        cluster = FakeCluster()
        cluster.answer_canary = False
        app = make_app(cluster)
        app.start()
        alive = asyncio.create_task(cluster.keep_alive())
        await until(lambda: len(cluster.router.kept(Submit)) == 1)
        whole = cluster.view
        cluster.show(replace(whole, decode=0))
        await asyncio.sleep(0.1)
        cluster.show(whole)
        cluster.answer_canary = True
        await until(lambda: app.desk.ready, limit_s=15)
        asked = len(cluster.router.kept(Submit))
        await asyncio.sleep(5)
        assert len(cluster.router.kept(Submit)) == asked
        alive.cancel()
        await app.stop()

    warped(main)
