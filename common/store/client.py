"""A worker's side of the kvstore: offer computed blocks, find cached ones again.

Everything here degrades and nothing raises into a request: without a store, or with one that does
not answer in time, an offer is simply over and a lookup finds nothing. Blocks offered stay pinned
by the caller until `done`; blocks found are leased from the store until they are read or released.
The app passes `on_message` and `on_down` on, as for every link it owns.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from common.domain.block import ArenaRef, Descriptor, LayoutTag
from common.domain.errors import ProtocolError
from common.domain.ids import UnitHash
from common.domain.peer import PeerRef
from common.store.transfer import Transfer
from common.wire.columns import pack_hashes
from common.wire.descriptors import pack_descriptors, unpack_descriptors
from common.wire.messages import Message
from common.wire.messages.cluster import Hello
from common.wire.messages.store import Found, LeaseDone, Lookup, Offer, Taken
from common.wire.port import Link, Port

OFFER_LEASE_S = 10.0
"""After this the offerer may reuse its slots, whether the store has answered or not."""
LOOKUP_TIMEOUT_S = 0.25
log = structlog.get_logger()


@dataclass(slots=True)
class _OpenOffer:
    done: Callable[[], None]
    lapse: asyncio.TimerHandle


class Lease:
    """The leading blocks of a lookup that the store has, held there for us until `read` or
    `release`; the store gives up after ten seconds, and what it reused by then reads as a miss."""

    def __init__(
        self,
        transfer: Transfer,
        arena: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        on_end: Callable[[], object],
    ) -> None:
        self._transfer = transfer
        self._arena = arena
        self._descriptors = descriptors
        self._length = length
        self._on_end: Callable[[], object] | None = on_end

    @property
    def blocks(self) -> int:
        """How many of the names asked for, from the first on, can be read."""
        return len(self._descriptors)

    async def read(self, targets: Sequence[memoryview]) -> int:
        """Copy the first len(targets) blocks and end the lease. Returns how many leading ones are
        verified; targets from there on hold anything."""
        try:
            wanted = self._descriptors[: len(targets)]
            targets = targets[: len(wanted)]
            verified = await self._transfer.pull(self._arena, wanted, self._length, targets)
        finally:
            self.release()
        return verified.index(False) if False in verified else len(verified)

    def release(self) -> None:
        """Idempotent."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class StoreClient:
    """Belongs to the event loop."""

    def __init__(
        self, port: Port, transfer: Transfer, hello: Callable[[], Hello], layout: LayoutTag
    ) -> None:
        """`hello` introduces us, with our arena in it, so that the store can read from there."""
        self._port = port
        self._transfer = transfer
        self._hello = hello
        self._layout = layout
        self._store: PeerRef | None = None
        self._link: Link | None = None
        self._offers: dict[int, _OpenOffer] = {}
        self._lookups: dict[int, asyncio.Future[Found | None]] = {}
        self._numbers = 0

    @property
    def open_offers(self) -> int:
        return len(self._offers)

    @property
    def available(self) -> bool:
        return self._link is not None

    def store_changed(self, store: PeerRef | None) -> None:
        """The router names the store to use, again or anew; None: there is none."""
        if store is not None and self._link is not None and store.id == self._link.peer:
            return
        self._leave()
        self._store = store
        if store is not None:
            self._link = self._port.connect(store.address, store.id)
            self._link.send(self._hello())

    def on_message(self, link: Link, message: Message) -> bool:
        """True: it was the store's and is dealt with."""
        if link is not self._link:
            return False
        match message:
            case Taken():
                self._finish(message.offer)
            case Found():
                self._found(link, message)
            case Hello():
                # Its arena is made when the first layout is known, so it introduces itself again.
                self._store = message.me
            case _:
                return False
        return True

    def on_down(self, link: Link) -> bool:
        if link is not self._link:
            return False
        log.warning("store_lost", store=str(link.peer))
        self._leave()
        return True

    def close(self) -> None:
        self._leave()
        self._store = None

    def offer(
        self,
        parent: UnitHash,
        units: Sequence[UnitHash],
        descriptors: Sequence[Descriptor],
        done: Callable[[], None],
    ) -> None:
        """Offer consecutive blocks, committed and pinned in our arena. `units` are all units of the
        blocks, `parent` the unit before them. `done` is called once, from the loop and never from
        inside this call, when the store needs them no longer: unpin then."""
        loop = asyncio.get_running_loop()
        self._numbers += 1
        number = self._numbers
        offer = Offer(
            number, self._layout, parent, pack_hashes(units), *pack_descriptors(descriptors)
        )
        if not descriptors or self._link is None or not self._link.send(offer):
            loop.call_soon(done)
            return
        lapse = loop.call_later(OFFER_LEASE_S, self._finish, number)
        self._offers[number] = _OpenOffer(done, lapse)

    async def lookup(self, names: Sequence[UnitHash]) -> Lease:
        """Lease the longest run of these consecutive blocks that the store has, from the first on;
        zero blocks when there is no store or it does not answer within 250 ms."""
        store, link = self._store, self._link
        arena = store.arena if store is not None else None
        if not names or link is None or arena is None or not arena.slots:
            return self._nothing()
        self._numbers += 1
        number = self._numbers
        if not link.send(Lookup(number, self._layout, pack_hashes(names))):
            return self._nothing()
        answer: asyncio.Future[Found | None] = asyncio.get_running_loop().create_future()
        self._lookups[number] = answer
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT_S):
                found = await answer
        except TimeoutError:
            return self._nothing()
        finally:
            self._lookups.pop(number, None)
        return self._leased(link, arena, found, len(names))

    def _leased(self, link: Link, arena: ArenaRef, found: Found | None, most: int) -> Lease:
        if found is None or not found.lease:
            return self._nothing()
        try:
            descriptors = unpack_descriptors(found.slots, found.generations, found.crcs)
            if len(descriptors) > most:
                raise ProtocolError("the store found more than was asked for")
        except ProtocolError as error:
            log.warning("store_answer_broken", store=str(link.peer), error=str(error))
            self._leave()
            return self._nothing()
        length = self._layout.block_bytes
        end = LeaseDone(found.lease)
        return Lease(self._transfer, arena, descriptors, length, lambda: link.send(end))

    def _nothing(self) -> Lease:
        nowhere = ArenaRef("", 0, "", "", "", 0, 0)
        return Lease(self._transfer, nowhere, (), self._layout.block_bytes, lambda: None)

    def _found(self, link: Link, found: Found) -> None:
        answer = self._lookups.get(found.lookup)
        if answer is not None and not answer.done():
            answer.set_result(found)
        elif found.lease:
            # Nobody waits any more; do not leave the blocks leased.
            link.send(LeaseDone(found.lease))

    def _finish(self, number: int) -> None:
        offer = self._offers.pop(number, None)
        if offer is not None:
            offer.lapse.cancel()
            offer.done()

    def _leave(self) -> None:
        """The store is gone, or we are: nothing stays pinned, nobody goes on waiting."""
        if self._link is not None:
            self._link.close()
            self._link = None
        for number in list(self._offers):
            self._finish(number)
        for answer in self._lookups.values():
            if not answer.done():
                answer.set_result(None)
