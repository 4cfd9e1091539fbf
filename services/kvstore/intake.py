"""Taking in what workers offer, one offer after the other, in chain order.

For each block that is not here: reserve a slot, bump its generation, pull, verify, commit. Only
then can it be found and is the router told. The offerer's crc stays with the block for good.
Whatever comes of an offer, its end is reported: the worker may unpin. An offer that waited longer
than its lease is dropped, because its slots may hold anything by now.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from common.domain.block import ArenaRef, Descriptor, LayoutTag
from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash
from common.kv.hashing import HASH_BYTES, UNIT_TOKENS
from common.store.transfer import Transfer
from common.wire.columns import unpack_hashes
from common.wire.descriptors import unpack_descriptors
from common.wire.messages.store import Offer
from services.kvstore.announcer import Announcer
from services.kvstore.directory import BlockSpec
from services.kvstore.shelf import Shelf

OFFER_LEASE_S = 10.0
"""A worker pins an offered block for so long."""
MAX_WAITING = 256
BATCH_BYTES = 16 * 1024 * 1024
"""Pulled and committed at once; smaller batches are visible earlier."""


@dataclass(frozen=True, slots=True)
class OfferedBlock:
    spec: BlockSpec
    source: Descriptor


@dataclass(frozen=True, slots=True)
class WaitingOffer:
    arena: ArenaRef
    layout: LayoutTag
    blocks: Sequence[OfferedBlock]
    lapses_at: float
    finished: Callable[[], None]


def offered_blocks(offer: Offer) -> list[OfferedBlock]:
    """The blocks of an offer in chain order. Raises ProtocolError if its columns disagree."""
    units = unpack_hashes(offer.units)
    sources = unpack_descriptors(offer.slots, offer.generations, offer.crcs)
    per_block, odd = divmod(offer.layout.block_tokens, UNIT_TOKENS)
    if odd or per_block < 1 or len(offer.parent) != HASH_BYTES:
        raise ProtocolError(f"an offer of blocks of {offer.layout.block_tokens} tokens")
    if len(units) != per_block * len(sources):
        raise ProtocolError(f"{len(units)} units for {len(sources)} blocks")
    blocks: list[OfferedBlock] = []
    parent = UnitHash(offer.parent)
    for i, source in enumerate(sources):
        own = tuple(units[i * per_block : (i + 1) * per_block])
        blocks.append(OfferedBlock(BlockSpec(own[-1], parent, own, offer.layout), source))
        parent = own[-1]
    return blocks


class Intake:
    """A queue and the coroutine that works it off."""

    def __init__(
        self,
        transfer: Transfer,
        shelf_for: Callable[[int], Awaitable[Shelf | None]],
        announcer: Announcer,
        clock: Callable[[], float],
    ) -> None:
        """`shelf_for(block_bytes)`: where such a block fits, None if nowhere."""
        self._transfer = transfer
        self._shelf_for = shelf_for
        self._announcer = announcer
        self._clock = clock
        self._queue: asyncio.Queue[WaitingOffer] = asyncio.Queue(MAX_WAITING)

    def put(self, offer: WaitingOffer) -> bool:
        """False: too many wait already; the offer was not taken over."""
        try:
            self._queue.put_nowait(offer)
        except asyncio.QueueFull:
            return False
        return True

    async def run(self) -> None:
        while True:
            offer = await self._queue.get()
            await self._take(offer)
            offer.finished()
            self._queue.task_done()

    async def idle(self) -> None:
        """Returns when nothing waits or runs."""
        await self._queue.join()

    async def _take(self, offer: WaitingOffer) -> None:
        length = offer.layout.block_bytes
        shelf = await self._shelf_for(length)
        if shelf is None:
            self._announcer.counts.blocks_unfit += len(offer.blocks)
            return
        size = max(1, BATCH_BYTES // length)
        for start in range(0, len(offer.blocks), size):
            if self._clock() >= offer.lapses_at:
                self._announcer.counts.blocks_lapsed += len(offer.blocks) - start
                return
            batch = offer.blocks[start : start + size]
            wanted, have_room = self._reserve(shelf, batch)
            all_good = await self._fill(shelf, offer, wanted)
            if not (have_room and all_good):
                self._announcer.counts.blocks_skipped += max(0, len(offer.blocks) - start - size)
                return

    def _reserve(
        self, shelf: Shelf, blocks: Sequence[OfferedBlock]
    ) -> tuple[list[tuple[OfferedBlock, int]], bool]:
        """Those that are not here and got a slot, with it. False: the slots did not suffice."""
        now = self._clock()
        wanted: list[tuple[OfferedBlock, int]] = []
        for i, block in enumerate(blocks):
            if block.spec.name in shelf.directory:
                shelf.directory.touch(block.spec.name, now)
                self._announcer.counts.blocks_known += 1
                continue
            reservation = shelf.directory.reserve(block.spec, now)
            if reservation is None:
                self._announcer.counts.blocks_no_room += len(blocks) - i
                return wanted, False
            self._announcer.removed(reservation.removed)
            wanted.append((block, reservation.slot))
        return wanted, True

    async def _fill(
        self, shelf: Shelf, offer: WaitingOffer, wanted: Sequence[tuple[OfferedBlock, int]]
    ) -> bool:
        """False: not all were verified."""
        generations: list[int] = []
        for block, slot in wanted:
            shelf.directory.start_fill(block.spec.name, self._clock())
            generations.append(shelf.arena.bump(slot))
        verified = await self._transfer.pull(
            offer.arena,
            [block.source for block, _ in wanted],
            offer.layout.block_bytes,
            [shelf.arena.view(slot) for _, slot in wanted],
        )
        stored: list[BlockSpec] = []
        now = self._clock()
        for (block, slot), generation, good in zip(wanted, generations, verified, strict=True):
            if good:
                copy = Descriptor(slot, generation, block.source.crc)
                shelf.directory.commit(block.spec.name, copy, now)
                stored.append(block.spec)
            else:
                shelf.directory.abandon(block.spec.name, now)
                self._announcer.counts.blocks_unverified += 1
        self._announcer.stored(stored)
        return len(stored) == len(wanted)
