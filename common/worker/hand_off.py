"""The prefill side: compute somebody's prompt and let them read its blocks while it goes on.

One task per attempt tells the story in order: hold, onboard, start, offer every block as it becomes
final, send the first tokens, stay readable until Released or until the lease ends.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from common.domain.errors import ProtocolError
from common.domain.ids import AttemptKey, UnitHash
from common.domain.ledger import Ledger
from common.engine.job import (
    Add,
    Computed,
    Drop,
    EngineEvent,
    FirstDrawn,
    Held,
    Refused,
    Revoke,
    Start,
)
from common.kv.layout import clear_tail
from common.wire.columns import pack_i32, unpack_hashes
from common.wire.descriptors import pack_descriptors
from common.wire.messages.submit import Failed
from common.wire.messages.work import Blocks, FirstTokens, Prefill
from common.wire.port import Link
from common.worker.logprobs import pack_logprobs
from common.worker.node import Node
from common.worker.offload import offer_blocks
from common.worker.onboard import onboard
from common.worker.pins import Pinned
from common.worker.request_check import check_sampling, prompt_ids

LEASE_S = 10.0
log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _HandOff:
    key: AttemptKey
    message: Prefill
    reader: Link
    prompt: list[int]
    units: list[UnitHash]
    expires: float
    events: asyncio.Queue[EngineEvent | None] = field(default_factory=asyncio.Queue)
    pinned: list[Pinned] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    started: bool = False
    """The engine runs it: its blocks are the engine's own, and no longer to be given back."""
    first_own: int = 0
    """Blocks before this one were found in a cache and are not offered to the store again."""


class HandOffs:
    """Every prompt this worker computes for somebody else."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._open: dict[AttemptKey, _HandOff] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, link: Link, message: Prefill) -> None:
        """Raises ProtocolError on broken columns or ids the model does not have."""
        if message.key in self._open:
            return
        vocab = self._node.card.vocab
        check_sampling(message.sampling, vocab)
        if message.have_blocks < 0:
            raise ProtocolError("fewer blocks than none")
        now = asyncio.get_running_loop().time()
        hand_off = _HandOff(
            message.key,
            message,
            link,
            prompt_ids(message.prompt, vocab),
            unpack_hashes(message.units),
            expires=now + LEASE_S,
        )
        self._open[message.key] = hand_off
        self._submit(hand_off)
        self._node.tasks.spawn(self._serve(hand_off), f"hand-off {message.key}")

    def _submit(self, hand_off: _HandOff) -> None:
        self._node.host.submit(
            Add(
                hand_off.key,
                hand_off.prompt,
                hand_off.units,
                UnitHash(hand_off.message.root),
                hand_off.message.sampling,
                hand_off=True,
            )
        )

    def on_event(self, event: EngineEvent) -> bool:
        """True: the event was of one of these."""
        match event:
            case Held(key) | Refused(key) | Revoke(key) | Computed(key) | FirstDrawn(key):
                hand_off = self._open.get(key)
                if hand_off is not None:
                    hand_off.events.put_nowait(event)
                return hand_off is not None
            case _:
                return False

    async def _serve(self, hand_off: _HandOff) -> None:
        """Until None comes. Never cancelled, so that no copy outlives the blocks it writes to."""
        while (event := await hand_off.events.get()) is not None:
            match event:
                case Held():
                    await self._start(hand_off, event)
                case Computed():
                    await self._offer(hand_off, event)
                case FirstDrawn():
                    self._send_first(hand_off, event)
                case Revoke():
                    if not hand_off.started:
                        self._node.host.submit(Drop(hand_off.key))
                        self._submit(hand_off)
                case Refused():
                    failed = Failed(hand_off.key, event.code, event.message, retryable=True)
                    hand_off.reader.send(failed)
                    self.end(hand_off.key)
                case other:
                    raise TypeError(f"{other} is no event of a hand-off")
        self._node.host.submit(Drop(hand_off.key))
        for pinned in hand_off.pinned:
            self._node.pins.let_go(pinned)

    async def _start(self, hand_off: _HandOff, held: Held) -> None:
        node = self._node
        clock = asyncio.get_running_loop().time
        started = clock()
        got = await onboard(
            node, len(hand_off.prompt), hand_off.units, held.slots, held.cached_tokens
        )
        hand_off.ledger.onboard_ms += (clock() - started) * 1e3
        hand_off.ledger.cached_host_tokens += got.loaded_tokens
        hand_off.ledger.onboard_bytes += got.loaded_bytes
        hand_off.first_own = got.computed // node.layout.block_tokens
        hand_off.started = True
        node.host.submit(Start(hand_off.key, got.computed, hand_off.message.have_blocks))

    def _send_first(self, hand_off: _HandOff, event: FirstDrawn) -> None:
        hand_off.ledger.add(event.ledger)
        tokens = pack_i32(drawn.token for drawn in event.first)
        logprobs = pack_logprobs(event.first)
        hand_off.reader.send(FirstTokens(hand_off.key, tokens, hand_off.ledger, logprobs))

    async def _offer(self, hand_off: _HandOff, event: Computed) -> None:
        """Describe final blocks, tell the reader, and offer to the store what was computed here."""
        node = self._node
        pinned = node.pins.hold(event.slots)
        hand_off.pinned.append(pinned)
        live = len(hand_off.prompt) % node.layout.block_tokens
        if event.last and live and event.slots:
            clear_tail(node.layout, node.arena.view(event.slots[-1]), live)
        length = node.layout.block_bytes
        descriptors = await node.transfer.describe(node.arena, event.slots, length)
        columns = pack_descriptors(descriptors)
        hand_off.reader.send(Blocks(hand_off.key, event.first, *columns, event.last))
        skip = max(0, hand_off.first_own - event.first)
        root = UnitHash(hand_off.message.root)
        offer_blocks(node, root, hand_off.units, event.first + skip, descriptors[skip:], pinned)

    def end(self, key: AttemptKey) -> bool:
        """Released, cancelled or lapsed: nothing of it stays. False: there was no such hand-off."""
        hand_off = self._open.pop(key, None)
        if hand_off is not None:
            hand_off.events.put_nowait(None)
        return hand_off is not None

    def renew(self, keys: tuple[AttemptKey, ...], now: float) -> None:
        for key in keys:
            if key in self._open:
                self._open[key].expires = now + LEASE_S

    def lapse(self, now: float) -> None:
        """End what its reader no longer asks for."""
        for key in [key for key, entry in self._open.items() if entry.expires < now]:
            log.warning("hand_off_lapsed", request_id=key.request, attempt=key.attempt)
            self.end(key)
