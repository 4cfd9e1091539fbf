"""The prefill side, spoken to by a decode worker that the test plays."""

import asyncio

import pytest

from common.domain.errors import ErrorCode
from common.domain.peer import Role
from common.domain.sampling import SamplingParams
from common.engine.engine import EngineLimits
from common.engine.job import Revoke
from common.engine.mock import KV_BYTES, expected_output
from common.engine.sequence import State
from common.kv.hashing import extend_chain
from common.wire.columns import pack_hashes, pack_i32, unpack_i32
from common.wire.descriptors import unpack_descriptors
from common.wire.messages.submit import Cancel, Failed
from common.wire.messages.work import Blocks, FirstTokens, Prefill, Released, Renew
from common.wire.port import Link
from tests.support.engines import ROOT, greedy, key, prompt_of
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import BLOCK_TOKENS, Peer, Site, Stage

SMALL_STEPS = EngineLimits(step_tokens=64)


class Reader(Peer):
    """A decode worker reduced to asking."""

    def __init__(self, stage: Stage, site: Site) -> None:
        super().__init__(stage.network, "decode-5", Role.DECODE)
        self._stage = stage
        self.link: Link = self.port.connect(site.ref.address, site.ref.id)

    def ask(
        self,
        name: str,
        prompt: list[int],
        params: SamplingParams | None = None,
        have_blocks: int = 0,
        column: bytes | None = None,
    ) -> None:
        message = Prefill(
            key(name),
            pack_i32(prompt) if column is None else column,
            pack_hashes(extend_chain(ROOT, prompt)),
            params or greedy(9),
            have_blocks,
            self.ref,
            ROOT,
        )
        self.link.send(message)

    async def first(self, name: str) -> FirstTokens:
        def found() -> list[FirstTokens]:
            return [first for first in self.all(FirstTokens) if first.key == key(name)]

        await self._stage.until(lambda: bool(found()))
        return found()[0]

    def blocks(self, name: str) -> list[Blocks]:
        return [blocks for blocks in self.all(Blocks) if blocks.key == key(name)]


def count(blocks: Blocks) -> int:
    return len(unpack_i32(blocks.slots))


@on_a_warped_clock
async def test_blocks_are_offered_as_they_become_final_and_the_tail_before_the_first_tokens() -> (
    None
):
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", limits=SMALL_STEPS)
        reader = Reader(stage, prefill)
        prompt, params = prompt_of(150), greedy(9, n=2, temperature=0.5)
        reader.ask("a", prompt, params)
        first = await reader.first("a")
        offers = reader.blocks("a")
        assert [(offer.first, count(offer), offer.last) for offer in offers] == [
            (0, 2, False),
            (2, 2, False),
            (4, 1, True),
        ]
        assert isinstance(reader.heard[-1][1], FirstTokens)
        expected = [expected_output(prompt, params, choice)[0] for choice in range(2)]
        assert unpack_i32(first.tokens).tolist() == expected
        assert (first.ledger.prefill_computed_tokens, first.ledger.prefill_chunks) == (150, 3)
        assert prefill.engine.cache.used == 5, "pinned until they are read"
        reader.link.send(Released(key("a")))
        await stage.assert_idle()
        assert prefill.engine.cache.cached == 4


@on_a_warped_clock
async def test_what_is_offered_can_be_read_and_the_tail_is_zero_after_its_tokens() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        for slot in range(prefill.arena.slots):
            prefill.arena.view(slot)[:] = b"\xee" * prefill.arena.slot_bytes
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(40))
        await reader.first("a")
        (offer,) = reader.blocks("a")
        blocks = unpack_descriptors(offer.slots, offer.generations, offer.crcs)
        size = prefill.node.layout.block_bytes
        targets = [memoryview(bytearray(size)) for _ in blocks]
        arena = prefill.ref.arena
        assert arena is not None
        transfer = stage.arenas.transfer()
        assert await transfer.pull(arena, blocks, size, targets) == [True, True]
        half = KV_BYTES // 2
        for keys_or_values in range(2):
            start = keys_or_values * BLOCK_TOKENS * half
            lane = bytes(targets[1][start : start + BLOCK_TOKENS * half])
            assert any(lane[: 8 * half])
            assert lane[8 * half :] == bytes(24 * half)


@on_a_warped_clock
async def test_only_what_the_reader_lacks_is_offered() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(100), have_blocks=2)
        await reader.first("a")
        assert [(offer.first, count(offer)) for offer in reader.blocks("a")] == [(2, 2)]
        reader.ask("b", prompt_of(64, seed=3), have_blocks=1)
        await reader.first("b")
        assert [(offer.first, count(offer)) for offer in reader.blocks("b")] == [(1, 1)]


@on_a_warped_clock
async def test_a_cached_prefix_is_offered_at_once_and_counted_as_cached() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", limits=SMALL_STEPS)
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(200))
        await reader.first("a")
        reader.link.send(Released(key("a")))
        await stage.assert_idle()
        reader.ask("b", prompt_of(200))
        first = await reader.first("b")
        assert [(offer.first, count(offer)) for offer in reader.blocks("b")] == [(0, 6), (6, 1)]
        assert first.ledger.cached_device_tokens == 192
        assert first.ledger.prefill_computed_tokens == 8


@pytest.mark.parametrize("steps", [0, 1, 2, 19])
def test_cancel_at_any_time_leaves_nothing(steps: int) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill = await stage.worker("prefill-0", limits=EngineLimits(step_tokens=32))
            reader = Reader(stage, prefill)
            reader.ask("a", prompt_of(600))
            await stage.until(lambda: prefill.engine.steps >= steps)
            reader.link.send(Cancel(key("a")))
            await stage.settle()
            await stage.assert_idle()

    run()


@on_a_warped_clock
async def test_a_reader_that_no_longer_asks_loses_its_blocks_after_the_lease() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        reader = Reader(stage, prefill)
        reader.ask("kept", prompt_of(100))
        reader.ask("left", prompt_of(100, seed=1))
        await reader.first("kept")
        await reader.first("left")
        for _ in range(9):
            await asyncio.sleep(1.0)
            reader.link.send(Renew((key("kept"),)))
        assert len(prefill.app._hand_offs) == 2
        for _ in range(3):
            await asyncio.sleep(1.0)
            reader.link.send(Renew((key("kept"),)))
        assert set(prefill.app._hand_offs._open) == {key("kept")}
        reader.die()
        await stage.assert_idle(limit_s=13.0)


@on_a_warped_clock
async def test_a_prompt_that_does_not_fit_is_refused() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", slots=4)
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(500))
        await stage.until(lambda: bool(reader.all(Failed)))
        (failed,) = reader.all(Failed)
        assert (failed.code, failed.retryable) == (ErrorCode.CAPACITY, True)
        await stage.assert_idle()


@pytest.mark.parametrize(
    ("column", "params", "have_blocks"),
    [
        (b"", greedy(4), 0),
        (b"abc", greedy(4), 0),
        (pack_i32([260]), greedy(4), 0),
        (pack_i32([-1]), greedy(4), 0),
        (pack_i32([1]), greedy(4, n=0), 0),
        (pack_i32([1]), greedy(4, seed=-1), 0),
        (pack_i32([1]), greedy(4), -1),
    ],
)
def test_a_broken_prefill_is_answered(
    column: bytes, params: SamplingParams, have_blocks: int
) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            prefill = await stage.worker("prefill-0")
            reader = Reader(stage, prefill)
            reader.ask("a", [], params, have_blocks, column)
            reader.ask("good", prompt_of(40))
            await reader.first("good")
            assert [(failed.key, failed.code) for failed in reader.all(Failed)] == [
                (key("a"), ErrorCode.INVALID_REQUEST)
            ]
            assert len(prefill.app._hand_offs) == 1

    run()


@on_a_warped_clock
async def test_a_prompt_asked_for_twice_is_computed_once() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(100))
        reader.ask("a", prompt_of(100))
        await reader.first("a")
        await stage.settle()
        assert len(reader.all(FirstTokens)) == 1
        assert prefill.app.status()["hand_offs"] == 1


@on_a_warped_clock
async def test_a_reservation_wanted_back_before_it_started_comes_again() -> None:
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0")
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(100))
        await stage.until(lambda: len(prefill.app._hand_offs) == 1)
        prefill.app._on_events([Revoke(key("a"))])
        first = await reader.first("a")
        assert unpack_i32(first.tokens).tolist() == expected_output(prompt_of(100), greedy(1))
        assert [(offer.first, count(offer)) for offer in reader.blocks("a")] == [(0, 4)]
        reader.link.send(Released(key("a")))
        await stage.assert_idle()


@on_a_warped_clock
async def test_a_reservation_wanted_back_too_late_is_kept() -> None:
    """The engine can preempt what runs by itself; starting over would offer blocks twice."""
    async with Stage() as stage:
        prefill = await stage.worker("prefill-0", limits=EngineLimits(step_tokens=32))
        reader = Reader(stage, prefill)
        reader.ask("a", prompt_of(300))
        await stage.until(lambda: len(reader.blocks("a")) == 3)
        prefill.app._on_events([Revoke(key("a"))])
        first = await reader.first("a")
        assert [offer.first for offer in reader.blocks("a")] == list(range(10))
        assert first.ledger.prefill_computed_tokens == 300
        assert first.ledger.recomputed_tokens == 0


@on_a_warped_clock
async def test_a_preempted_prompt_is_offered_once_and_right() -> None:
    """A stream of this worker's own grows until the youngest prompt has to give its blocks up."""
    async with Stage() as stage:
        limits = EngineLimits(step_tokens=16)
        prefill = await stage.worker("prefill-0", slots=41, limits=limits)
        reader = Reader(stage, prefill)
        own = stage.assign(prefill, stage.submit("own", prompt_of(30), greedy(400)))
        await stage.until(lambda: prefill.engine.steps > 2)
        for seed, name in enumerate(["older", "younger"]):
            reader.ask(name, prompt_of(600, seed))
        await reader.first("older")
        await stage.until(lambda: prefill.engine._running[-1].state is State.PREEMPTED)
        reader.link.send(Released(key("older")))
        for seed, name in enumerate(["older", "younger"]):
            first = await reader.first(name)
            expected = expected_output(prompt_of(600, seed), greedy(1))
            assert unpack_i32(first.tokens).tolist() == expected
            assert first.ledger.preemptions == seed
            assert first.ledger.prefill_computed_tokens == 600
            offers = reader.blocks(name)
            ends = [offer.first + count(offer) for offer in offers]
            assert [offer.first for offer in offers] == [0, *ends[:-1]]
            assert ends[-1] == 19
        reader.link.send(Released(key("younger")))
        await stage.finish(own)
        stage.assert_output(own, prompt_of(30), greedy(400))
        await stage.assert_idle()
