"""The decode side of a hand-over: have the prompt computed elsewhere, take its blocks over.

Blocks are read while later chunks are still being computed. Whatever goes wrong (the prefill worker
dies, a copy fails its check, nothing moves) ends the fetch with what is verified so far; the caller
computes the rest itself, so a lost prefill worker costs time and never a request.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from common.domain.errors import ProtocolError
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef
from common.engine.runner import Drawn
from common.wire.descriptors import unpack_descriptors
from common.wire.messages.submit import Failed
from common.wire.messages.work import Blocks, FirstTokens
from common.worker.logprobs import unpack_drawn
from common.worker.node import Node

SILENCE_S = 30.0
"""A prefill worker that says nothing for this long is given up: its queue may be long, but then the
router should not have sent us there."""


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The prefill worker has died."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The attempt is over."""


FetchEvent = Blocks | FirstTokens | Failed | PeerLost | Stop


@dataclass(slots=True, eq=False)
class Fetch:
    """One hand-over being received. `verified` blocks from the first on are in place."""

    prefill: PeerRef
    slots: Sequence[int]
    verified: int
    inbox: asyncio.Queue[FetchEvent] = field(default_factory=asyncio.Queue)
    first: tuple[Drawn, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    stopped: bool = False
    last_arrived: bool = False
    """The prompt's last chunk has been computed: what is copied from now on is not early."""

    def put(self, event: FetchEvent) -> None:
        if isinstance(event, Blocks) and event.last:
            self.last_arrived = True
        self.inbox.put_nowait(event)

    @property
    def complete(self) -> bool:
        return bool(self.first) and self.verified == len(self.slots)


async def receive(node: Node, fetch: Fetch) -> None:
    """Take events from the inbox until the hand-over is complete, broken or stopped."""
    clock = asyncio.get_running_loop().time
    while not fetch.complete:
        try:
            async with asyncio.timeout(SILENCE_S):
                event = await fetch.inbox.get()
        except TimeoutError:
            return
        match event:
            case Blocks():
                started = clock()
                if not await _take(node, fetch, event):
                    return
                fetch.ledger.transfer_ms += (clock() - started) * 1e3
            case FirstTokens():
                fetch.first = unpack_drawn(event.tokens, event.logprobs)
                fetch.ledger.add(event.ledger)
            case Failed() | PeerLost():
                return
            case Stop():
                fetch.stopped = True
                return
            case _:
                assert_never(event)


async def _take(node: Node, fetch: Fetch, event: Blocks) -> bool:
    """Copy one message's blocks into place. False: from here on nothing can be trusted to fit."""
    try:
        descriptors = unpack_descriptors(event.slots, event.generations, event.crcs)
    except ProtocolError:
        return False
    targets = fetch.slots[event.first : event.first + len(descriptors)]
    if event.first != fetch.verified or len(targets) != len(descriptors):
        return False
    arena = fetch.prefill.arena
    if arena is None:
        return False
    length = node.layout.block_bytes
    views = [node.arena.view(slot) for slot in targets]
    verified = await node.transfer.pull(arena, descriptors, length, views)
    good = verified.index(False) if False in verified else len(verified)
    fetch.verified += good
    fetch.ledger.transfer_bytes += good * length
    fetch.ledger.transfer_early_bytes += 0 if fetch.last_arrived else good * length
    return good == len(verified)
