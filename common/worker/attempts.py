"""The attempts whose streams this worker writes: what the wire and the engine say about them.

An attempt is here from Assign until all its choices have ended or somebody cancels: the gateway,
its death, its silence, or the deadline. The way to the first token is attempt.py's; tokens leave
through the StreamWriter.
"""

import asyncio
from collections.abc import Sequence

import structlog

from common.domain.errors import ErrorCode, ProtocolError
from common.domain.ids import AttemptKey, ProcessId
from common.domain.ledger import Ledger
from common.domain.peer import Role
from common.engine.job import (
    Computed,
    Done,
    Dropped,
    Emitted,
    EngineEvent,
    Held,
    Refused,
    Revoke,
)
from common.wire.columns import unpack_hashes
from common.wire.messages.submit import Failed
from common.wire.messages.work import Assign, Blocks, FirstTokens, PromptDone, Renew
from common.wire.port import Link
from common.worker.attempt import LEASE_S, Attempt, Preparation
from common.worker.fetch import PeerLost
from common.worker.logprobs import unpack_drawn
from common.worker.node import Node
from common.worker.offload import offer_blocks
from common.worker.peer_links import PeerLinks
from common.worker.request_check import check_sampling, prompt_ids
from common.worker.stream_writer import StreamWriter

log = structlog.get_logger()


class Attempts:
    """Keeps every attempt from Assign to Ended."""

    def __init__(self, node: Node, role: Role) -> None:
        self._node = node
        self._role = role
        self._gateways = PeerLinks(node.port, self._gateway_lost)
        self._prefills = PeerLinks(node.port, self._prefill_lost)
        self._preparation = Preparation(node, self._prefills)
        self.writer = StreamWriter(self._gateways)
        self._open: dict[AttemptKey, Attempt] = {}
        self._cancelled: dict[AttemptKey, Attempt] = {}
        """Told to stop; the engine still has to say what they have cost."""

    def __len__(self) -> int:
        return len(self._open)

    # From the wire ---------------------------------------------------------------------------

    def assign(self, link: Link, assign: Assign) -> None:
        """Raises ProtocolError on broken columns, addresses, or ids the model does not have."""
        submit = assign.submit
        if submit.key in self._open:
            return
        check_sampling(submit.sampling, self._node.card.vocab)
        now = asyncio.get_running_loop().time()
        attempt = Attempt(
            key=submit.key,
            assign=assign,
            router=link,
            gateway=assign.gateway.id,
            prompt=prompt_ids(submit.prompt, self._node.card.vocab),
            units=unpack_hashes(submit.units),
            assigned_at=now,
            deadline=now + submit.deadline_ms / 1e3 if submit.deadline_ms else float("inf"),
        )
        attempt.ledger.queue_ms = assign.queue_ms
        self._gateways.to(assign.gateway)
        if assign.prefill is not None:
            self._prefills.to(assign.prefill)
        self._open[submit.key] = attempt
        self._node.tasks.spawn(self._preparation.run(attempt), f"attempt {submit.key}")

    def cancel(self, key: AttemptKey) -> bool:
        """False: there was no such attempt."""
        attempt = self._open.pop(key, None)
        if attempt is None:
            return False
        log.info("attempt_cancelled", request_id=key.request, attempt=key.attempt)
        self._cancelled[key] = attempt
        attempt.stop()
        return True

    def renew(self, keys: Sequence[AttemptKey], now: float) -> None:
        for key in keys:
            if key in self._open:
                self._open[key].expires = now + LEASE_S

    def on_prefill_message(self, message: Blocks | FirstTokens | Failed) -> None:
        """From the worker that computes one of our prompts. Raises ProtocolError."""
        attempt = self._open.get(message.key)
        if attempt is None or attempt.fetch is None:
            return
        if isinstance(message, FirstTokens):
            self._forward_first(attempt, message)
        attempt.fetch.put(message)

    def on_down(self, link: Link) -> bool:
        return self._prefills.on_down(link) or self._gateways.on_down(link)

    def gateway_addresses(self) -> list[str]:
        return self._gateways.addresses()

    def _gateway_lost(self, gateway: ProcessId) -> None:
        self.writer.gateway_lost(gateway)
        for attempt in [entry for entry in self._open.values() if entry.gateway == gateway]:
            self.cancel(attempt.key)

    def _prefill_lost(self, peer: ProcessId) -> None:
        for attempt in self._open.values():
            if attempt.fetch is not None and attempt.fetch.prefill.id == peer:
                attempt.fetch.put(PeerLost())

    def tick(self, now: float) -> None:
        """Every second: renew what is being computed for us, end what nobody wants any more."""
        for peer in self._prefills.peers():
            keys = tuple(
                attempt.key
                for attempt in self._open.values()
                if attempt.fetch is not None and attempt.fetch.prefill.id == peer
            )
            if keys:
                self._prefills.send(peer, Renew(keys))
        for attempt in list(self._open.values()):
            if attempt.deadline <= now:
                self._fail(attempt, ErrorCode.DEADLINE, "the deadline has passed")
            elif attempt.expires <= now:
                self.cancel(attempt.key)
        self.writer.resend(now)

    # From the engine -------------------------------------------------------------------------

    def on_event(self, event: EngineEvent) -> bool:
        """True: the event was of one of these."""
        match event:
            case Emitted():
                # First, because nearly every event is one.
                attempt = self._open.get(event.key)
            case Done(key, ledger) | Dropped(key, ledger) if key in self._cancelled:
                self._account(self._cancelled.pop(key), ledger)
                return True
            case Refused(key) if key in self._cancelled:
                del self._cancelled[key]
                return True
            case Held() | Refused() | Revoke() | Computed() | Done():
                attempt = self._open.get(event.key)
            case _:
                return False
        if attempt is not None:
            self._dispatch(attempt, event)
        return attempt is not None

    def _dispatch(
        self, attempt: Attempt, event: Held | Refused | Revoke | Computed | Emitted | Done
    ) -> None:
        match event:
            case Emitted():
                self._emit(attempt, event)
            case Held():
                attempt.holds.put_nowait(event)
            case Refused():
                self._fail(attempt, event.code, event.message)
            case Revoke():
                attempt.revoke()
            case Computed():
                self._node.tasks.spawn(self._publish(attempt, event), f"offload {attempt.key}")
            case Done():
                self._finish(attempt, event)

    async def _publish(self, attempt: Attempt, event: Computed) -> None:
        """Offer what was computed here to the kvstore."""
        node = self._node
        pinned = node.pins.hold(event.slots)
        if node.store.available:
            length = node.layout.block_bytes
            descriptors = await node.transfer.describe(node.arena, event.slots, length)
            offer_blocks(node, attempt.root, attempt.units, event.first, descriptors, pinned)
        node.pins.let_go(pinned)

    def _forward_first(self, attempt: Attempt, message: FirstTokens) -> None:
        """The client need not wait until the blocks are here and a step is due."""
        first = unpack_drawn(message.tokens, message.logprobs)
        vocab = self._node.card.vocab
        if len(first) != attempt.assign.submit.sampling.n:
            raise ProtocolError("not one first token a choice")
        if any(not 0 <= drawn.token < vocab for drawn in first):
            raise ProtocolError("first tokens outside the vocabulary")
        if attempt.first_sent:
            return
        for choice, drawn in enumerate(first):
            self.writer.emit(attempt.gateway, attempt.key, choice, 0, [drawn], None)
        attempt.first_sent = True
        self.writer.flush()
        self._prompt_done(attempt)

    def _prompt_done(self, attempt: Attempt) -> None:
        if not attempt.prompt_done:
            attempt.prompt_done = True
            attempt.router.send(PromptDone(attempt.key))

    def _emit(self, attempt: Attempt, event: Emitted) -> None:
        self._prompt_done(attempt)
        forwarded = event.index == 0 and attempt.first_sent
        if forwarded and event.finish is None:
            return
        start = 1 if forwarded else event.index
        drawn = [] if forwarded else [event.drawn]
        self.writer.emit(attempt.gateway, attempt.key, event.choice, start, drawn, event.finish)

    def _finish(self, attempt: Attempt, event: Done) -> None:
        """The engine holds nothing for it any more."""
        del self._open[attempt.key]
        self.writer.flush()
        self._account(attempt, event.ledger)
        attempt.stop()

    def _account(self, attempt: Attempt, engine: Ledger) -> None:
        """Close the books and send them to the gateway."""
        if self._role is Role.DECODE:
            engine.decode_prefill_tokens = engine.prefill_computed_tokens
            engine.prefill_computed_tokens = 0
        if attempt.remote:
            engine.cached_device_tokens = 0
        attempt.ledger.add(engine)
        self.writer.finish(attempt.gateway, attempt.key, attempt.ledger)

    def _fail(self, attempt: Attempt, code: ErrorCode, message: str) -> None:
        """To the gateway if the attempt was placed, else to the router, which may replan."""
        self._open.pop(attempt.key, None)
        failed = Failed(attempt.key, code, message)
        if attempt.accepted:
            self._gateways.send(attempt.gateway, failed)
        else:
            attempt.refused = True
            attempt.router.send(failed)
        attempt.stop()
