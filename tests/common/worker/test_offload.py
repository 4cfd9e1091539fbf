"""What is computed is offered to the kvstore, once, by whoever computed it."""

from common.domain.block import Descriptor
from common.domain.ids import UnitHash
from common.engine.engine import EngineLimits
from common.kv.hashing import extend_chain
from common.worker.offload import offer_blocks
from tests.support.engines import ROOT, greedy, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Site, Stage


@on_a_warped_clock
async def test_an_aggregated_worker_offers_its_whole_blocks_and_unpins_them() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0", limits=EngineLimits(step_tokens=64))
        store = await stage.store()
        wanted = stage.assign(decode, stage.submit("a", prompt_of(200)))
        await stage.finish(wanted)
        await stage.until(lambda: store.stock.slots()["held"] == 6)
        await stage.assert_idle()
        assert decode.node.store.open_offers == 0
        again = stage.assign(decode, stage.submit("b", prompt_of(200)))
        await stage.finish(again)
        await stage.assert_idle()
        assert store.status()["offers"] == 3, "one a chunk; the second request computed no block"


@on_a_warped_clock
async def test_of_a_hand_over_the_prefill_worker_offers_what_it_computed() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        store = await stage.store()
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(200)), prefill))
        await stage.until(lambda: store.stock.slots()["held"] == 6)
        await stage.assert_idle()
        before = store.status()["offers"]
        longer = stage.submit("b", prompt_of(300), greedy(8))
        await stage.finish(stage.assign(decode, longer, prefill))
        await stage.until(lambda: store.stock.slots()["held"] == 9)
        assert store.status()["offers"] == before + 1
        await stage.assert_idle()


@on_a_warped_clock
async def test_without_a_store_nothing_stays_pinned() -> None:
    async with Stage() as stage:
        prefill, decode = await stage.split()
        await stage.finish(stage.assign(decode, stage.submit("a", prompt_of(200)), prefill))
        await stage.finish(stage.assign(decode, stage.submit("b", prompt_of(200, seed=1))))
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_store_that_dies_with_an_offer_leaves_nothing_pinned() -> None:
    async with Stage() as stage:
        decode = await stage.worker("decode-0")
        store = await stage.store()
        store._intake.put = lambda offer: True  # it takes and never finishes
        wanted = stage.assign(decode, stage.submit("a", prompt_of(200)))
        await stage.finish(wanted)
        assert decode.node.pins.open == 6
        store._port.close()
        await stage.assert_idle()


def told(site: Site) -> list[tuple[bytes, list[UnitHash], int]]:
    """Put itself between a worker and its store client."""
    offers: list[tuple[bytes, list[UnitHash], int]] = []

    def offer(parent: UnitHash, units: list[UnitHash], blocks: list[Descriptor], done) -> None:
        offers.append((parent, list(units), len(blocks)))
        done()

    site.node.store.offer = offer
    return offers


@on_a_warped_clock
async def test_only_named_whole_blocks_are_offered_with_the_unit_before_them() -> None:
    async with Stage() as stage:
        site = await stage.worker("decode-0")
        offers = told(site)
        units = extend_chain(ROOT, prompt_of(120))
        blocks = [Descriptor(slot, 1, 0) for slot in range(4)]
        nothing = UnitHash(b"")
        for root, first, count in [(ROOT, 0, 4), (ROOT, 2, 2), (ROOT, 3, 1), (nothing, 0, 3)]:
            pinned = site.node.pins.hold([])
            offer_blocks(site.node, root, units, first, blocks[:count], pinned)
        # 120 tokens are seven units: three whole blocks, and one more that has no name.
        assert offers == [(ROOT, units[:6], 3), (units[3], units[4:6], 1)]


@on_a_warped_clock
async def test_the_pin_is_shared_until_the_store_has_read() -> None:
    async with Stage() as stage:
        site = await stage.worker("decode-0")
        ends = []
        site.node.store.offer = lambda parent, units, blocks, done: ends.append(done)
        slots = site.engine.cache.allocate(1)
        assert slots is not None
        pinned = site.node.pins.hold(slots)
        units = extend_chain(ROOT, prompt_of(32))
        offer_blocks(site.node, ROOT, units, 0, [site.arena.describe(slots[0], 512)], pinned)
        site.node.pins.let_go(pinned)
        assert site.engine.cache.used == 1
        ends[0]()
        assert site.engine.cache.used == 0
