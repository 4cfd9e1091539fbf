"""What a worker tells Prometheus."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from common.domain.ledger import Ledger
from common.engine.engine import EngineLimits
from common.engine.job import FirstDrawn
from tests.support.engines import greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Stage


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"twinfleet_worker_{name}", labels)
    return 0.0 if found is None else found


@on_a_warped_clock
async def test_counters_follow_the_requests() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        registry = decode.app.registry
        for name in ("a", "b"):
            await stage.finish(stage.assign(decode, stage.submit(name, prompt_of(100), greedy(9))))
        assert value(registry, "generation_tokens_total") == 18
        assert value(registry, "prompt_tokens_total", source="computed") == 104
        assert value(registry, "prompt_tokens_total", source="cached_device") == 96
        assert value(registry, "steps") == decode.engine.steps == 18
        assert 0 < value(registry, "kv_waste_ratio") < 1
        await stage.assert_idle()


@on_a_warped_clock
async def test_what_was_computed_for_a_cancelled_request_counts_too() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        wanted = stage.assign(decode, stage.submit("a", prompt_of(100), greedy(900)))
        await stage.until(lambda: (wanted, 0) in stage.gateway.tokens)
        stage.cancel(decode, wanted)
        await stage.finish(wanted)
        assert value(decode.app.registry, "prompt_tokens_total", source="computed") == 100


@on_a_warped_clock
async def test_gauges_are_read_when_asked() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", slots=20)
        registry = decode.app.registry
        wanted = stage.assign(decode, stage.submit("a", prompt_of(100), greedy(100)))
        await stage.until(lambda: (wanted, 0) in stage.gateway.tokens)
        assert value(registry, "requests_running") == 1
        assert value(registry, "kv_blocks") == 20
        assert value(registry, "kv_blocks_used") == 4
        await stage.finish(wanted)
        await stage.assert_idle()
        assert value(registry, "requests_running") == value(registry, "kv_blocks_used") == 0
        assert value(registry, "kv_blocks_cached") > 0


@on_a_warped_clock
async def test_what_the_pool_held_over_time_can_be_subtracted() -> None:
    async with Stage() as stage:
        limits = EngineLimits(allocator="contiguous_max", context_tokens=512)
        decode = await stage.worker("decode-0", limits=limits)

        def held() -> list[float]:
            registry = decode.app.registry
            states = ("live", "tail", "reserved")
            return [value(registry, "kv_token_seconds_total", state=state) for state in states]

        before = held()
        assert before == [0.0, 0.0, 0.0]
        started = asyncio.get_running_loop().time()
        submit = stage.submit("a", prompt_of(100), greedy(100))
        await stage.finish(stage.assign(decode, submit))
        seconds = asyncio.get_running_loop().time() - started
        live, tail, reserved = held()
        assert (live, tail, reserved) == (
            decode.engine.integral.live,
            decode.engine.integral.tail,
            decode.engine.integral.empty,
        )
        assert live + tail + reserved == pytest.approx(512 * seconds, rel=0.05)
        assert 1 - live / (live + tail + reserved) == pytest.approx(1 - 150 / 512, abs=0.03)
        await stage.assert_idle()
        after = held()
        await asyncio.sleep(10)
        assert held() == after, "an idle worker holds nothing"


@on_a_warped_clock
async def test_preemptions_come_from_the_ledgers() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        prefill.app._metrics.observe([FirstDrawn(key("a"), (), Ledger(preemptions=3))])
        assert value(prefill.app.registry, "preemptions_total") == 3
