"""Receiving a hand-over: what is taken, what is not believed, and when it ends."""

import asyncio
from collections.abc import Sequence

import pytest

from common.domain.block import Descriptor
from common.domain.errors import ErrorCode
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from common.engine.runner import Drawn
from common.store.arena import Arena
from common.wire.columns import pack_i32
from common.wire.descriptors import pack_descriptors
from common.wire.messages.submit import Failed
from common.wire.messages.work import Blocks, FirstTokens
from common.worker.fetch import SILENCE_S, Fetch, FetchEvent, PeerLost, Stop, receive
from tests.support.engines import key
from tests.support.sim.loop import on_a_warped_clock
from tests.support.workers import Site, Stage

KEY = key("a")
BLOCKS = 4
FIRST = FirstTokens(KEY, pack_i32([65]), Ledger(prefill_computed_tokens=100))


class Source:
    """A published arena with blocks of known content, and a fetch of all of them."""

    def __init__(self, stage: Stage, site: Site) -> None:
        self.me = ProcessId(ProcessName("prefill-0"), Incarnation(9))
        self.arena = Arena.create("source", BLOCKS, 4096)
        self.site = site
        self.size = site.node.layout.block_bytes
        for slot in range(BLOCKS):
            self.arena.view(slot)[:] = bytes([slot + 1]) * 4096
        ref = stage.arenas.publish(self.arena, self.me).ref
        peer = PeerRef(self.me.name, self.me.incarnation, Role.PREFILL, "mem://prefill-0", ref)
        slots = site.engine.cache.allocate(BLOCKS)
        assert slots is not None
        for slot in slots:
            site.arena.view(slot)[:] = bytes(4096)
        self.fetch = Fetch(peer, slots, verified=0)

    def describe(self, first: int, count: int) -> list[Descriptor]:
        return [self.arena.describe(slot, self.size) for slot in range(first, first + count)]

    def blocks(
        self,
        first: int,
        count: int,
        last: bool = False,
        descriptors: Sequence[Descriptor] | None = None,
    ) -> Blocks:
        made = self.describe(first, count) if descriptors is None else descriptors
        return Blocks(KEY, first, *pack_descriptors(made), last)

    async def receive(self, *events: FetchEvent) -> Fetch:
        for event in events:
            self.fetch.put(event)
        await receive(self.site.node, self.fetch)
        return self.fetch

    def arrived(self) -> list[int]:
        """The first byte of every target."""
        return [self.site.arena.view(slot)[0] for slot in self.fetch.slots]


@on_a_warped_clock
async def test_all_blocks_and_the_first_tokens_are_a_hand_over() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        fetch = await source.receive(source.blocks(0, 1), source.blocks(1, 3, last=True), FIRST)
        assert fetch.complete
        assert not fetch.stopped
        assert source.arrived() == [1, 2, 3, 4]
        assert fetch.first == (Drawn(65),)
        assert fetch.ledger.transfer_bytes == 4 * source.size
        assert fetch.ledger.prefill_computed_tokens == 100


@on_a_warped_clock
async def test_early_is_what_was_copied_before_the_last_chunk_was_there() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        receiving = asyncio.ensure_future(receive(source.site.node, source.fetch))
        source.fetch.put(source.blocks(0, 2))
        await asyncio.sleep(1)
        source.fetch.put(source.blocks(2, 1))
        source.fetch.put(source.blocks(3, 1, last=True))
        source.fetch.put(FIRST)
        await receiving
        assert source.fetch.ledger.transfer_bytes == 4 * source.size
        assert source.fetch.ledger.transfer_early_bytes == 2 * source.size


@on_a_warped_clock
async def test_a_reader_that_has_the_beginning_gets_the_rest() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        source.fetch.verified = 3
        fetch = await source.receive(source.blocks(3, 1, last=True), FIRST)
        assert fetch.complete
        assert source.arrived() == [0, 0, 0, 4]
        assert fetch.ledger.transfer_bytes == source.size


@pytest.mark.parametrize("ending", [PeerLost(), Failed(KEY, ErrorCode.INTERNAL, "")])
def test_a_lost_peer_ends_it_with_what_is_verified(ending: FetchEvent) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            source = Source(stage, await stage.worker("decode-0"))
            fetch = await source.receive(source.blocks(0, 3), ending, source.blocks(3, 1))
            assert (fetch.verified, fetch.complete, fetch.stopped) == (3, False, False)

    run()


@on_a_warped_clock
async def test_stop_ends_it_after_what_came_before() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        fetch = await source.receive(source.blocks(0, 1), Stop(), source.blocks(1, 3), FIRST)
        assert (fetch.verified, fetch.stopped) == (1, True)


@on_a_warped_clock
async def test_silence_ends_it_and_every_word_puts_that_off() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        receiving = asyncio.ensure_future(receive(source.site.node, source.fetch))
        for first in range(3):
            await asyncio.sleep(SILENCE_S * 0.9)
            assert not receiving.done()
            source.fetch.put(source.blocks(first, 1))
        started = asyncio.get_running_loop().time()
        await receiving
        assert asyncio.get_running_loop().time() - started == pytest.approx(SILENCE_S)
        assert (source.fetch.verified, source.fetch.complete) == (3, False)


def spoiled(source: Source, how: str) -> Blocks:
    good = source.describe(0, BLOCKS)
    match how:
        case "crc":
            good[2] = Descriptor(2, good[2].generation, good[2].crc ^ 1)
        case "reused":
            source.arena.bump(2)
        case "slot":
            good[2] = Descriptor(99, 0, 0)
        case "content":
            source.arena.view(2)[5] ^= 4
    return source.blocks(0, BLOCKS, last=True, descriptors=good)


@pytest.mark.parametrize("how", ["crc", "reused", "slot", "content"])
def test_from_a_bad_block_on_nothing_counts(how: str) -> None:
    @on_a_warped_clock
    async def run() -> None:
        async with Stage() as stage:
            source = Source(stage, await stage.worker("decode-0"))
            fetch = await source.receive(spoiled(source, how), FIRST)
            assert (fetch.verified, fetch.complete) == (2, False)
            assert fetch.ledger.transfer_bytes == 2 * source.size

    run()


@on_a_warped_clock
async def test_blocks_that_do_not_follow_are_not_taken() -> None:
    async with Stage() as stage:
        site = await stage.worker("decode-0")
        for wrong in (
            lambda source: source.blocks(2, 2),
            lambda source: source.blocks(0, 1),
            lambda source: source.blocks(1, 3, descriptors=source.describe(0, 4)),
            lambda source: Blocks(KEY, 1, b"\0" * 4, b"", b"", last=True),
            lambda source: Blocks(KEY, 1, b"\0\0", b"\0\0", b"\0\0", last=True),
            lambda source: Blocks(KEY, 1, b"\xff" * 4, b"\0" * 4, b"\0" * 4, last=True),
            lambda source: Blocks(KEY, -3, *pack_descriptors(source.describe(0, 1)), last=True),
        ):
            source = Source(stage, site)
            fetch = await source.receive(source.blocks(0, 1), wrong(source), FIRST)
            assert (fetch.verified, fetch.complete) == (1, False)
            assert source.arrived()[1:] == [0, 0, 0]
            site.engine.cache.release(list(fetch.slots))


@on_a_warped_clock
async def test_a_peer_without_an_arena_has_nothing_to_give() -> None:
    async with Stage() as stage:
        source = Source(stage, await stage.worker("decode-0"))
        me = source.me
        source.fetch.prefill = PeerRef(me.name, me.incarnation, Role.PREFILL, "mem://prefill-0")
        fetch = await source.receive(source.blocks(0, 4, last=True), FIRST)
        assert (fetch.verified, fetch.complete) == (0, False)
