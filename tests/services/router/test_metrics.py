"""What Prometheus sees."""

from prometheus_client import CollectorRegistry, generate_latest

from common.domain.errors import ErrorCode
from common.wire.messages.submit import Cancel
from services.router.metrics import RouterMetrics
from tests.support.router_peers import R1, R3, SPLIT, Cluster
from tests.support.router_world import prompt_of, submit, units_of
from tests.support.sim.loop import on_a_warped_clock


def test_every_name_is_the_router_s_and_explained() -> None:
    registry = CollectorRegistry()
    metrics = RouterMetrics(registry)
    metrics.watch("queue_length", "Attempts waiting.", lambda: 7)
    for family in registry.collect():
        assert family.name.startswith("twinfleet_router_")
        assert family.documentation.endswith(".")
    assert b"twinfleet_router_queue_length 7.0" in generate_latest(registry)


@on_a_warped_clock
async def test_each_attempt_is_counted_once_under_its_outcome() -> None:
    cluster = await Cluster().start(*SPLIT)
    await cluster.bring_to("streaming")
    cluster.decode0.end(R1)
    cluster.gateway0.router.send(submit("r2", prompt_of(2_000)))
    cluster.gateway0.router.send(submit("r3"))
    await cluster.settle()
    cluster.gateway0.router.send(Cancel(R3))
    await cluster.settle()
    assert cluster.gateway0.failures()[0][1] is ErrorCode.CAPACITY
    value = cluster.router.registry.get_sample_value
    for outcome in ("ended", "capacity", "cancelled"):
        assert value("twinfleet_router_attempts_total", {"outcome": outcome}) == 1.0
    assert value("twinfleet_router_attempts_live") == 0.0
    labels = {"policy": "kv_aware", "computes": "prefill"}
    assert value("twinfleet_router_decisions_total", labels) == 2.0
    assert (value("twinfleet_router_plan_seconds_sum") or 0.0) > 0.0


@on_a_warped_clock
async def test_matched_tokens_and_gaps_are_counted() -> None:
    cluster = await Cluster().start("decode-0", "gateway-0")
    prompt = prompt_of(10)
    cluster.decode0.store(units_of(prompt)[:10])
    await cluster.settle()
    cluster.gateway0.router.send(submit("r1", prompt))
    cluster.decode0.store(units_of(prompt)[:12], skip_number=True)
    await cluster.settle()
    value = cluster.router.registry.get_sample_value
    assert value("twinfleet_router_prompt_tokens_total") == 320.0
    assert value("twinfleet_router_matched_tokens_total") == 160.0
    assert value("twinfleet_router_event_gaps_total") == 1.0
    assert value("twinfleet_router_index_nodes") == 13.0
