"""Blocks that a kvstore has are not computed again, on either role."""

import pytest

from common.domain.block import ArenaRef, Descriptor
from common.engine.engine import EngineLimits
from common.kv.hashing import extend_chain
from common.worker.onboard import Onboarded, onboard
from tests.support.engines import ROOT, greedy, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Site, Stage

PROMPT = prompt_of(200)


async def filled_store(stage: Stage) -> None:
    """Another worker has computed the prompt, has offered it, and is gone."""
    other = await stage.worker("decode-9")
    store = await stage.store()
    wanted = stage.assign(other, stage.submit("first", PROMPT))
    await stage.finish(wanted)
    await stage.until(lambda: store.stock.slots()["held"] == 6)
    await stage.assert_idle()
    await stage.kill(other)
    stage.arenas.reads.bytes = 0


async def tell(stage: Stage) -> None:
    (store,) = stage.stores
    await stage.use_store(store._me())


@on_a_warped_clock
async def test_decode_loads_what_it_would_have_to_compute() -> None:
    async with Stage() as stage:
        await filled_store(stage)
        decode = await stage.worker("decode-0")
        await tell(stage)
        wanted = stage.assign(decode, stage.submit("a", PROMPT))
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, PROMPT, greedy(8))
        assert (ledger.cached_host_tokens, ledger.cached_device_tokens) == (192, 0)
        assert ledger.decode_prefill_tokens == 8
        assert ledger.onboard_bytes == stage.arenas.reads.bytes == 6 * 512
        await stage.assert_idle()
        assert decode.engine.cache.cached == 6, "and it is in this worker's own cache now"


@on_a_warped_clock
async def test_prefill_loads_and_hands_over_what_it_loaded() -> None:
    async with Stage() as stage:
        await filled_store(stage)
        prefill = await stage.worker("prefill-0")
        await tell(stage)
        decode = await stage.worker("decode-0")
        offers = stage.stores[0].status()["offers"]
        wanted = stage.assign(decode, stage.submit("a", PROMPT), prefill)
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, PROMPT, greedy(8))
        assert ledger.cached_host_tokens == 192
        assert (ledger.prefill_computed_tokens, ledger.decode_prefill_tokens) == (8, 0)
        assert ledger.transfer_bytes == 7 * 512
        await stage.assert_idle()
        (store,) = stage.stores
        assert store.status()["offers"] == offers, "the store has had it all along"


@on_a_warped_clock
async def test_both_roles_load_each_its_own_part() -> None:
    async with Stage() as stage:
        await filled_store(stage)
        prefill, decode = await stage.split(limits=EngineLimits(step_tokens=32))
        await tell(stage)
        longer = prompt_of(400)
        assert longer[:200] == PROMPT
        wanted = stage.assign(decode, stage.submit("a", longer), prefill)
        ledger = (await stage.finish(wanted)).ledger
        stage.assert_output(wanted, longer, greedy(8))
        # Decode had six blocks from the store already, so only the others were handed over.
        assert ledger.transfer_bytes == 7 * 512
        assert ledger.prefill_computed_tokens == 208
        assert ledger.cached_tokens + ledger.prefill_computed_tokens == 400, "each token once"
        await stage.assert_idle()


@pytest.mark.parametrize("bad", [0, 3])
def test_a_corrupted_copy_in_the_store_is_a_shorter_prefix(bad: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            await filled_store(stage)
            decode = await stage.worker("decode-0")
            await tell(stage)
            (store,) = stage.stores

            def spoil(ref: ArenaRef, blocks: list[Descriptor]) -> None:
                assert store.stock.shelf is not None
                store.stock.shelf.arena.view(blocks[bad].slot)[0] ^= 1

            stage.arenas.reads.before = spoil
            wanted = stage.assign(decode, stage.submit("a", PROMPT))
            ledger = (await stage.finish(wanted)).ledger
            stage.assert_output(wanted, PROMPT, greedy(8))
            assert ledger.cached_host_tokens == 32 * bad
            assert ledger.decode_prefill_tokens == 200 - 32 * bad
            await stage.assert_idle()

    run()


async def onboarded(stage: Stage, site: Site, tokens: int, cached: int = 0) -> Onboarded:
    prompt = PROMPT[:tokens]
    slots = site.engine.cache.allocate(-(-tokens // 32))
    assert slots is not None
    return await onboard(site.node, tokens, extend_chain(ROOT, prompt), slots, cached)


@on_a_warped_clock
async def test_the_last_token_is_always_left_and_what_is_cached_is_not_asked_for() -> None:
    async with Stage() as stage:
        await filled_store(stage)
        decode = await stage.worker("decode-0")
        await tell(stage)
        assert await onboarded(stage, decode, 192) == Onboarded(160, 160, 5 * 512)
        assert await onboarded(stage, decode, 193) == Onboarded(192, 192, 6 * 512)
        assert await onboarded(stage, decode, 193, cached=64) == Onboarded(192, 128, 4 * 512)
        assert await onboarded(stage, decode, 32) == Onboarded(0, 0, 0)


@on_a_warped_clock
async def test_without_a_store_nothing_is_found_and_no_time_lost() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        assert await onboarded(stage, decode, 193, cached=32) == Onboarded(32, 0, 0)
