"""The router among fake peers: what it tells them, whom it believes, how it starts and stops."""

import asyncio
from random import Random

import pytest

from common.domain.errors import ErrorCode
from common.domain.ids import AttemptKey
from common.domain.peer import Medium
from common.wire.messages.cluster import ClusterView, Load, Pulse, StoreView, Welcome
from common.wire.messages.events import BlocksStored, SnapshotWanted
from common.wire.messages.store import LeaseDone
from common.wire.messages.submit import Cancel, Failed, Placed
from common.wire.messages.work import PromptDone
from services.router.plan import PlanRules
from tests.support.router_peers import R1, R2, R3, SHARED, SPLIT, Cluster, FakeWorker
from tests.support.router_world import (
    CARD,
    ROOT,
    key,
    process,
    submit,
    units_of,
)
from tests.support.sim.loop import on_a_warped_clock


@on_a_warped_clock
async def test_everybody_is_welcomed_and_told_what_it_needs() -> None:
    cluster = await Cluster().start(*SPLIT)
    for member in (cluster.decode0, cluster.prefill0, cluster.gateway0):
        assert member.last(Welcome) == Welcome(accepted=True)
    for worker in (cluster.decode0, cluster.prefill0):
        assert worker.all(StoreView) == [StoreView(None)]
        assert len(worker.all(SnapshotWanted)) == 1
    assert cluster.gateway0.last(ClusterView) == ClusterView(CARD, prefill=1, decode=1)


@on_a_warped_clock
async def test_the_view_goes_out_twice_a_second_and_on_every_change() -> None:
    cluster = await Cluster().start(*SPLIT)
    seen = len(cluster.gateway0.all(ClusterView))
    await asyncio.sleep(5.0)
    assert 9 <= len(cluster.gateway0.all(ClusterView)) - seen <= 11
    cluster.join("decode-1")
    await cluster.settle()
    assert cluster.gateway0.last(ClusterView).decode == 2
    cluster.decode1.die()
    await cluster.settle()
    assert cluster.gateway0.last(ClusterView).decode == 1


@on_a_warped_clock
async def test_a_restarted_router_knows_again_where_everything_is() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    cluster.decode1.store(units_of(SHARED))
    await cluster.bring_to("streaming")
    await cluster.router.stop()
    await cluster.start_router()
    await cluster.settle()
    assert len(cluster.router.fleet.index) == 81
    assert cluster.gateway0.last(ClusterView) == ClusterView(CARD, prefill=0, decode=2)
    cluster.gateway0.router.send(submit("r2", SHARED))
    await cluster.settle()
    assert R2 in cluster.decode1.assigned
    cluster.decode0.end(R1)
    await cluster.settle()
    assert cluster.router.attempts.by_state()["accepted"] == 1


@pytest.mark.parametrize("how", ["broken column", "another's pulse", "out of turn"])
@on_a_warped_clock
async def test_a_peer_that_makes_no_sense_loses_its_place_and_nobody_else_does(how: str) -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    cluster.decode0.silent = True
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    bad: FakeWorker = cluster.decode0
    match how:
        case "broken column":
            bad.router.send(BlocksStored(1, Medium.DEVICE, ROOT, b"broken"))
        case "another's pulse":
            bad.router.send(Pulse(cluster.decode1.me, 1))
        case _:
            bad.say(R1, PromptDone(R1))
    await asyncio.sleep(2.5)
    assert cluster.gateway0.failures() == [(R1, ErrorCode.WORKER_LOST)]
    assert cluster.gateway0.last(ClusterView).decode == 1
    cluster.gateway0.router.send(submit("r2"))
    await cluster.settle()
    assert R2 in cluster.decode1.assigned


@on_a_warped_clock
async def test_messages_not_meant_for_a_router_change_nothing() -> None:
    cluster = await Cluster().start(*SPLIT)
    cluster.decode0.router.send(LeaseDone(4))
    await cluster.settle()
    assert cluster.gateway0.last(ClusterView).decode == 1
    sample = cluster.router.registry.get_sample_value(
        "twinfleet_router_messages_unexpected_total", {"kind": "LeaseDone"}
    )
    assert sample == 1.0


@on_a_warped_clock
async def test_a_gateway_that_has_not_said_hello_is_told_to_try_again() -> None:
    cluster = await Cluster().start(*SPLIT)
    stranger = cluster.network.port(process("gateway-7"), "mem://gateway-7")
    stranger.start(cluster.gateway0)
    stranger.connect("mem://router-0").send(submit("r1"))
    await cluster.settle()
    failed = cluster.gateway0.last(Failed)
    assert (failed.code, failed.retryable) == (ErrorCode.ROUTER_LOST, True)


@on_a_warped_clock
async def test_after_a_mass_cancel_every_number_is_zero_and_workers_are_chosen_again() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    names = [f"s{number}" for number in range(20)]
    for name in names:
        cluster.gateway0.router.send(submit(name))
    await cluster.settle()
    for worker in (cluster.decode0, cluster.decode1):
        worker.load = Load(running=10, blocks_used=30, blocks_total=1_000)
    await asyncio.sleep(0.3)
    for name in names:
        cluster.gateway0.router.send(Cancel(key(name)))
    for worker in (cluster.decode0, cluster.decode1):
        worker.load = Load(blocks_total=1_000)
    await asyncio.sleep(2.0)
    members = cluster.router.status()["members"]
    assert isinstance(members, list)
    for member in members:
        assert (member["sequences"], member["pending_tokens"], member["blocks_used"]) == (0, 0, 0)
    for number in range(4):
        cluster.gateway0.router.send(submit(f"t{number}"))
    await cluster.settle()
    assert {key("t0"), key("t1"), key("t2"), key("t3")} == {
        k for w in (cluster.decode0, cluster.decode1) for k in w.assigned if k.request[0] == "t"
    }
    assert min(len(w.assigned) for w in (cluster.decode0, cluster.decode1)) == 12


@on_a_warped_clock
async def test_a_draining_router_turns_away_what_waits_and_leaves_what_runs() -> None:
    cluster = await Cluster(PlanRules(max_sequences=1)).start("decode-0", "gateway-0")
    cluster.decode0.silent = True
    for request in ("r1", "r2"):
        cluster.gateway0.router.send(submit(request))
    await cluster.settle()
    drained = asyncio.ensure_future(cluster.router.drain())
    await cluster.settle()
    assert not drained.done()
    assert not cluster.router.ready()
    cluster.gateway0.router.send(submit("r3"))
    cluster.decode0.accept(R1)
    await cluster.settle()
    assert drained.done()
    assert cluster.gateway0.failures() == [(R2, ErrorCode.ROUTER_LOST), (R3, ErrorCode.ROUTER_LOST)]
    assert cluster.gateway0.last(Placed).key == R1


class Chaos:
    """One gateway, honest workers that answer when they like, and deaths."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.draw = Random(seed)
        self.cluster = cluster
        self.lives = dict.fromkeys(("decode-0", "decode-1", "prefill-0", "gateway-0"), 0)
        self.submitted: list[AttemptKey] = []
        self.said: dict[tuple[FakeWorker, AttemptKey], int] = {}
        for name in self.lives:
            self.restart(name)

    def restart(self, name: str) -> None:
        if self.lives[name]:
            self.cluster.peers[name].die()
        self.lives[name] += 1
        peer = self.cluster.join(name, self.lives[name])
        if isinstance(peer, FakeWorker):
            peer.silent = True

    def act(self) -> None:
        match self.draw.randrange(8):
            case 0 | 1 | 2:
                self.submit()
            case 3 if self.submitted:
                self.cluster.gateway0.router.send(Cancel(self.draw.choice(self.submitted)))
            case 4 | 5 | 6:
                self.answer()
            case 7 if self.draw.random() < 0.3:
                self.restart(self.draw.choice(sorted(self.lives)))

    def submit(self) -> None:
        name = f"r{len(self.submitted)}"
        self.submitted.append(key(name))
        tokens, priority = self.draw.choice([1, 9]), self.draw.randrange(2)
        message = submit(name, max_tokens=tokens, priority=priority)
        self.cluster.gateway0.router.send(message)

    def answer(self) -> None:
        """What a worker may say next about one of its attempts."""
        worker = self.cluster.peers[self.draw.choice(["decode-0", "decode-1", "prefill-0"])]
        assert isinstance(worker, FakeWorker)
        if not worker.assigned:
            return
        attempt, what = self.draw.choice(sorted(worker.assigned)), self.draw.randrange(4)
        stage = self.said.pop((worker, attempt), 0)
        if stage == 0 and what:
            worker.accept(attempt)
            self.said[worker, attempt] = 1
        elif stage == 1 and what:
            worker.prompt_done(attempt)
            self.said[worker, attempt] = 2
        else:
            worker.end(attempt) if stage else worker.refuse(attempt)
            del worker.assigned[attempt]


@pytest.mark.parametrize("seed", range(25))
@on_a_warped_clock
async def test_whatever_happens_nothing_is_left_behind(seed: int) -> None:
    cluster = await Cluster(PlanRules(max_sequences=3), queue_limit=8).start()
    chaos = Chaos(cluster, seed)
    await cluster.settle()
    for _ in range(300):
        chaos.act()
        await asyncio.sleep(chaos.draw.choice([0.0, 0.001, 0.002, 0.05]))
        cluster.router.attempts.check_invariants()
    cluster.gateway0.die()
    await asyncio.sleep(15.0)
    assert len(cluster.router.attempts) == 0
    members = cluster.router.status()["members"]
    assert isinstance(members, list)
    assert {(m["sequences"], m["pending_tokens"], m["blocks_used"]) for m in members} == {(0, 0, 0)}
    value = cluster.router.registry.get_sample_value
    assert value("twinfleet_router_peers_dropped_total") == 0.0
    outcomes = ("ended", "cancelled", "worker_lost", "no_worker", "overloaded")
    closed = (value("twinfleet_router_attempts_total", {"outcome": o}) or 0.0 for o in outcomes)
    assert 0 < sum(closed) <= len(chaos.submitted)
