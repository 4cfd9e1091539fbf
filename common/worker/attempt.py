"""One attempt on its writer, and the way from Assign to a running sequence.

One task per attempt tells the story in order: reserve blocks, fill what the caches have, have the
rest of the prompt computed (elsewhere when the plan says so, here otherwise). It is never
cancelled, so that no copy outlives the blocks it writes to; it is told to stop and then drops what
it holds.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from common.domain.ids import AttemptKey, ProcessId, UnitHash
from common.domain.ledger import Ledger
from common.engine.job import Add, Deliver, Drop, Held, Start
from common.wire.messages.submit import Cancel
from common.wire.messages.work import Accepted, Assign, Ended, Prefill, Released
from common.wire.port import Link
from common.worker.fetch import Fetch, Stop, receive
from common.worker.node import Node
from common.worker.onboard import onboard
from common.worker.peer_links import PeerLinks

LEASE_S = 5.0
"""A gateway lists its live attempts every second; one it no longer lists is cancelled after
this."""
log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class Attempt:
    """What the writer knows of one attempt."""

    key: AttemptKey
    assign: Assign
    router: Link
    gateway: ProcessId
    prompt: list[int]
    units: list[UnitHash]
    assigned_at: float
    deadline: float
    expires: float = float("inf")
    """End of the gateway's lease, once it knows where its stream is."""
    holds: asyncio.Queue[Held | None] = field(default_factory=asyncio.Queue)
    """Reservations as the engine grants them; None: the attempt is over."""
    fetch: Fetch | None = None
    accepted: bool = False
    refused: bool = False
    """The router knows that it is over: it may have planned anew and be served elsewhere."""
    asked: bool = False
    """A prefill worker has been asked for it. Once only: after a revocation it may still be letting
    go of the first round under the same key."""
    begun: bool = False
    """The engine runs it: its blocks are the engine's own again."""
    revoked: bool = False
    remote: bool = False
    """The prompt was computed elsewhere, so the caches that count are those of the other side."""
    first_sent: bool = False
    prompt_done: bool = False
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def root(self) -> UnitHash:
        return UnitHash(self.assign.submit.root)

    def stop(self) -> None:
        """Let the task end and drop what it holds."""
        if self.fetch is not None:
            self.fetch.put(Stop())
        self.holds.put_nowait(None)

    def revoke(self) -> None:
        """The reservation is wanted back: queue again once nothing writes into it any more."""
        if self.begun:
            return
        self.revoked = True
        if self.fetch is not None:
            self.fetch.put(Stop())


class Preparation:
    """Runs the task of each attempt."""

    def __init__(self, node: Node, prefills: PeerLinks) -> None:
        self._node = node
        self._prefills = prefills

    async def run(self, attempt: Attempt) -> None:
        self._reserve(attempt)
        while (held := await attempt.holds.get()) is not None:
            self._accept(attempt)
            computed = await self._onboard(attempt, held)
            if attempt.holds.empty() and not attempt.revoked:
                await self._begin(attempt, held, computed)
            if attempt.revoked:
                attempt.revoked = False
                self._node.host.submit(Drop(attempt.key))
                self._reserve(attempt)
        self._node.host.submit(Drop(attempt.key))
        if not attempt.refused:
            attempt.router.send(Ended(attempt.key))

    def _reserve(self, attempt: Attempt) -> None:
        params = attempt.assign.submit.sampling
        self._node.host.submit(
            Add(attempt.key, attempt.prompt, attempt.units, attempt.root, params)
        )

    def _accept(self, attempt: Attempt) -> None:
        if attempt.accepted:
            return
        now = asyncio.get_running_loop().time()
        attempt.accepted = True
        attempt.expires = now + LEASE_S
        attempt.ledger.reserve_ms = (now - attempt.assigned_at) * 1e3
        attempt.router.send(Accepted(attempt.key))

    async def _onboard(self, attempt: Attempt, held: Held) -> int:
        clock = asyncio.get_running_loop().time
        started = clock()
        got = await onboard(
            self._node, len(attempt.prompt), attempt.units, held.slots, held.cached_tokens
        )
        attempt.ledger.onboard_ms += (clock() - started) * 1e3
        attempt.ledger.cached_host_tokens = got.loaded_tokens
        attempt.ledger.onboard_bytes = got.loaded_bytes
        return got.computed

    async def _begin(self, attempt: Attempt, held: Held, computed: int) -> None:
        """Get the rest of the prompt from the planned prefill worker, or start computing here."""
        size = self._node.layout.block_tokens
        verified = computed // size
        if attempt.assign.prefill is not None and not attempt.asked:
            fetch = await self._fetch(attempt, Fetch(attempt.assign.prefill, held.slots, verified))
            if fetch.stopped:
                return
            if fetch.complete:
                attempt.begun = True
                self._node.host.submit(Deliver(attempt.key, fetch.first))
                return
            log.warning("prefill_lost", request_id=attempt.key.request, prefill=fetch.prefill.name)
            verified = min(fetch.verified, (len(attempt.prompt) - 1) // size)
        attempt.begun = True
        self._node.host.submit(Start(attempt.key, verified * size, export_from=verified))

    async def _fetch(self, attempt: Attempt, fetch: Fetch) -> Fetch:
        attempt.fetch, attempt.asked = fetch, True
        if self._ask(attempt, fetch):
            await receive(self._node, fetch)
        attempt.fetch = None
        ending = Released(attempt.key) if fetch.complete else Cancel(attempt.key)
        self._prefills.send(fetch.prefill.id, ending)
        if fetch.complete:
            attempt.remote = True
            attempt.ledger.cached_host_tokens = 0
        attempt.ledger.add(fetch.ledger)
        return fetch

    def _ask(self, attempt: Attempt, fetch: Fetch) -> bool:
        submit = attempt.assign.submit
        message = Prefill(
            attempt.key,
            submit.prompt,
            submit.units,
            submit.sampling,
            fetch.verified,
            self._node.me,
            submit.root,
        )
        return self._prefills.to(fetch.prefill).send(message)
