"""Who counts as there, and what is believed of them."""

import asyncio
from dataclasses import replace

from common.domain.block import ArenaRef
from common.domain.errors import ErrorCode
from common.domain.peer import Medium
from common.wire.columns import pack_hashes
from common.wire.messages.cluster import ClusterView, Pulse, StoreView, Welcome
from common.wire.messages.events import BlocksStored, Snapshot, SnapshotWanted
from common.wire.messages.work import Assign
from tests.support.router_peers import R1, SHARED, SPLIT, Cluster
from tests.support.router_world import (
    CARD,
    ROOT,
    hello,
    peer,
    process,
    prompt_of,
    submit,
    units_of,
)
from tests.support.sim.loop import on_a_warped_clock


@on_a_warped_clock
async def test_a_silent_worker_gets_no_work_after_one_second_and_is_dead_after_three() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    assert R1 in cluster.decode0.assigned
    cluster.decode0.pulsing = False
    await asyncio.sleep(1.3)
    for number in range(10, 14):
        cluster.gateway0.router.send(submit(f"r{number}"))
    await cluster.settle()
    assert len(cluster.decode0.assigned) == 1
    assert len(cluster.decode1.assigned) == 4
    assert cluster.gateway0.failures() == []
    await asyncio.sleep(2.0)
    assert cluster.gateway0.failures() == [(R1, ErrorCode.WORKER_LOST)]


@on_a_warped_clock
async def test_a_worker_thought_dead_that_pulses_again_is_taken_back() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    cluster.decode0.store(units_of(SHARED))
    cluster.decode0.pulsing = False
    await asyncio.sleep(4.0)
    assert cluster.gateway0.last(ClusterView).decode == 0
    assert len(cluster.router.fleet.index) == 0
    cluster.decode0.pulsing = True
    await asyncio.sleep(1.5)
    assert cluster.gateway0.last(ClusterView).decode == 1
    assert len(cluster.router.fleet.index) == 81
    cluster.gateway0.router.send(submit("r1"))
    await cluster.settle()
    assert R1 in cluster.decode0.assigned


@on_a_warped_clock
async def test_a_pulse_that_outlives_its_process_does_not_bring_it_back() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    cluster.decode0.die()
    await cluster.settle()
    stray = cluster.network.port(process("decode-0"), "mem://stray")
    stray.start(cluster.gateway0)
    stray.connect("mem://router-0").send(Pulse(peer("decode-0"), 99))
    await cluster.settle()
    assert cluster.gateway0.last(ClusterView).decode == 0


@on_a_warped_clock
async def test_a_shared_prefix_goes_to_the_worker_that_has_it() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "prefill-0", "prefill-1", "gateway-0")
    cluster.prefill1.store(units_of(SHARED))
    await cluster.settle()
    cluster.gateway0.router.send(submit("r1", SHARED + prompt_of(10, label=9)))
    await cluster.settle()
    assign = (cluster.decode0.all(Assign) + cluster.decode1.all(Assign))[0]
    assert assign.prefill == cluster.prefill1.me
    cluster.prefill1.remove(units_of(SHARED)[1:])
    cluster.prefill0.store(units_of(SHARED))
    await asyncio.sleep(30.0)
    cluster.gateway0.router.send(submit("r2", SHARED + prompt_of(10, label=9)))
    await cluster.settle()
    assigns = cluster.decode0.all(Assign) + cluster.decode1.all(Assign)
    assert {assign.prefill for assign in assigns} == {cluster.prefill0.me, cluster.prefill1.me}


@on_a_warped_clock
async def test_a_restarted_worker_is_not_steered_to_for_what_it_had() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    cluster.decode1.store(units_of(SHARED))
    await cluster.settle()
    assert len(cluster.router.fleet.index) > 0
    cluster.decode1.die()
    await cluster.settle()
    assert len(cluster.router.fleet.index) == 0
    cluster.join("decode-1", 2)
    await cluster.settle()
    cluster.gateway0.router.send(submit("r1", SHARED))
    await cluster.settle()
    assert R1 in cluster.decode0.assigned


@on_a_warped_clock
async def test_a_successor_that_comes_before_the_death_is_seen_ends_the_old_life() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    cluster.decode0.store(units_of(SHARED))
    await cluster.bring_to("streaming")
    successor = cluster.network.port(process("decode-0", 2), "mem://elsewhere")
    successor.start(cluster.gateway0)
    me = replace(peer("decode-0", 2), address="mem://elsewhere")
    successor.connect("mem://router-0").send(replace(hello("decode-0", 2), me=me))
    await cluster.settle()
    assert len(cluster.router.fleet.index) == 0
    assert cluster.gateway0.failures() == [(R1, ErrorCode.WORKER_LOST)]


@on_a_warped_clock
async def test_a_gap_in_the_events_is_healed_by_a_snapshot() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    cluster.decode1.store(units_of(prompt_of(1, label=4)))
    cluster.decode1.store(units_of(SHARED), skip_number=True)
    await cluster.settle()
    assert len(cluster.decode1.all(SnapshotWanted)) == 2
    cluster.gateway0.router.send(submit("r1", SHARED))
    await cluster.settle()
    assert R1 in cluster.decode1.assigned


@on_a_warped_clock
async def test_a_worker_of_another_model_is_refused_until_the_first_model_is_gone() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    other = replace(CARD, weights_digest="other")
    cluster.join("decode-1", card=other)
    await asyncio.sleep(3.0)
    welcome = cluster.decode1.last(Welcome)
    assert not welcome.accepted
    assert "weights_digest" in welcome.reason
    assert len(cluster.decode1.all(Welcome)) == 1
    assert cluster.gateway0.last(ClusterView).decode == 1
    cluster.decode0.die()
    await asyncio.sleep(0.5)
    assert cluster.decode1.last(Welcome).accepted
    assert cluster.gateway0.last(ClusterView).card == other


@on_a_warped_clock
async def test_a_worker_that_drains_keeps_its_work_and_gets_no_more() -> None:
    cluster = await Cluster().start("decode-0", "decode-1", "gateway-0")
    await cluster.bring_to("streaming")
    cluster.decode0.leave()
    await cluster.settle()
    assert cluster.gateway0.last(ClusterView).decode == 1
    for number in range(10, 16):
        cluster.gateway0.router.send(submit(f"r{number}"))
    await cluster.settle()
    assert list(cluster.decode0.assigned) == [R1]
    cluster.decode0.end(R1)
    await cluster.settle()
    assert cluster.gateway0.failures() == []


@on_a_warped_clock
async def test_workers_hear_which_kvstore_to_use() -> None:
    cluster = await Cluster().start(*SPLIT)
    cluster.join("kvstore-0")
    await cluster.settle()
    cluster.join("prefill-1")
    await cluster.settle()
    for worker in (cluster.decode0, cluster.prefill0, cluster.prefill1):
        assert worker.last(StoreView) == StoreView(cluster.kvstore0.me)
    assert len(cluster.kvstore0.all(SnapshotWanted)) == 1
    cluster.kvstore0.die()
    await cluster.settle()
    for worker in (cluster.decode0, cluster.prefill0, cluster.prefill1):
        assert worker.last(StoreView) == StoreView(None)


@on_a_warped_clock
async def test_what_the_kvstore_holds_counts_for_every_worker_until_it_dies() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0", "kvstore-0")
    store = cluster.kvstore0
    store.router.send(Snapshot(0, Medium.HOST, b"", b""))
    store.router.send(BlocksStored(1, Medium.HOST, ROOT, pack_hashes(units_of(SHARED)[:60])))
    await cluster.settle()
    cluster.gateway0.router.send(submit("r1", SHARED))
    await cluster.settle()
    matched = "twinfleet_router_matched_tokens_total"
    assert cluster.router.registry.get_sample_value(matched) == 960.0
    store.die()
    await cluster.settle()
    cluster.gateway0.router.send(submit("r2", SHARED))
    await cluster.settle()
    assert cluster.router.registry.get_sample_value(matched) == 960.0
    assert len(cluster.router.fleet.index) == 0


@on_a_warped_clock
async def test_a_worker_reads_from_the_kvstore_of_its_own_host() -> None:
    cluster = await Cluster().start()
    for name, host in (("kvstore-0", "east"), ("kvstore-1", "west"), ("decode-0", "west")):
        arena = ArenaRef(name, 1, host, "", "", 1, 1)
        greeting = hello(name)
        cluster.join(name, greeting=replace(greeting, me=replace(greeting.me, arena=arena)))
    await cluster.settle()
    assert cluster.decode0.last(StoreView).store == cluster.kvstore1.me
    cluster.kvstore1.die()
    await cluster.settle()
    assert cluster.decode0.last(StoreView).store == cluster.kvstore0.me


@on_a_warped_clock
async def test_a_snapshot_that_does_not_come_is_asked_for_again() -> None:
    cluster = await Cluster().start("kvstore-0")
    await asyncio.sleep(5.0)
    assert len(cluster.kvstore0.all(SnapshotWanted)) == 3
    cluster.kvstore0.router.send(Snapshot(0, Medium.HOST, b"", b""))
    await asyncio.sleep(5.0)
    assert len(cluster.kvstore0.all(SnapshotWanted)) == 3


@on_a_warped_clock
async def test_a_hello_of_the_same_life_is_answered_like_the_first() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    await cluster.bring_to("streaming")
    cluster.decode0.router.send(cluster.decode0.hello)
    await cluster.settle()
    assert cluster.decode0.all(Welcome) == [Welcome(accepted=True)] * 2
    assert len(cluster.decode0.all(SnapshotWanted)) == 2
    assert cluster.router.attempts.by_state()["streaming"] == 1
