"""What each worker is believed to carry: the router's own account, corrected by what it reports.

An account changes the moment a placement is decided, so that a burst spreads before any worker has
said a word. Reports lag by a heartbeat and also cover work of another router or of this one's
earlier life. Where the two differ the larger counts; what ended since the last report is taken off
it at once, so that a freed worker is used again immediately.
"""

import math
from dataclasses import dataclass, field

from common.domain.ids import AttemptKey, ProcessId
from common.wire.messages.cluster import Load
from services.router.placement import Placement, WorkerLoad

RECENT_S = 5.0
"""Time constant of `recent_tokens`: tokens assigned t seconds ago count exp(-t / RECENT_S)."""


@dataclass(slots=True)
class _Fading:
    """A sum in which what was added fades with RECENT_S."""

    total: float = 0.0
    at: float = 0.0

    def now(self, now: float) -> float:
        return self.total * math.exp((self.at - now) / RECENT_S)

    def add(self, tokens: int, now: float) -> None:
        self.total, self.at = self.now(now) + tokens, now


@dataclass(slots=True)
class _Share:
    """What one attempt puts on one worker."""

    worker: ProcessId
    pending_tokens: int
    sequences: int
    context_blocks: int
    new_blocks: int


@dataclass(slots=True)
class _Account:
    """Sums over the living shares of one worker, and its last report."""

    pending_tokens: int = 0
    sequences: int = 0
    context_blocks: int = 0
    new_blocks: int = 0
    reported: Load = field(default_factory=Load)
    sequences_since: int = 0
    blocks_since: int = 0
    """Changes since the report."""
    recent: _Fading = field(default_factory=_Fading)
    repeated: _Fading = field(default_factory=_Fading)
    freed_at: float = -math.inf

    def add(self, share: _Share, sign: int) -> None:
        self.pending_tokens += sign * share.pending_tokens
        self.sequences += sign * share.sequences
        self.context_blocks += sign * share.context_blocks
        self.new_blocks += sign * share.new_blocks
        self.sequences_since += sign * share.sequences
        self.blocks_since += sign * share.new_blocks


class LoadBook:
    def __init__(self) -> None:
        self._accounts: dict[ProcessId, _Account] = {}
        self._shares: dict[AttemptKey, list[_Share]] = {}

    def report(self, worker: ProcessId, load: Load) -> None:
        """From a Hello or a Pulse; opens the account."""
        account = self._accounts.setdefault(worker, _Account())
        account.reported = load
        account.sequences_since = account.blocks_since = 0

    def drop(self, worker: ProcessId) -> None:
        self._accounts.pop(worker, None)

    def place(self, key: AttemptKey, placement: Placement, now: float) -> None:
        own = placement.uncached_tokens if placement.prefill is None else 0
        shares = [
            _Share(
                placement.writer,
                own,
                placement.choices,
                placement.context_blocks,
                placement.new_blocks,
            )
        ]
        whole = placement.prompt_tokens
        self._note_recent(placement.writer, placement.writer_new_tokens, whole, now)
        if placement.prefill is not None:
            tokens, blocks = placement.uncached_tokens, placement.prefill_blocks
            shares.append(_Share(placement.prefill, tokens, 1, blocks, blocks))
            self._note_recent(placement.prefill, tokens, whole, now)
        self._shares[key] = shares
        for share in shares:
            self._add(share, 1)

    def prompt_done(self, key: AttemptKey, now: float) -> None:
        """The prompt is computed and, if a prefill worker did it, handed over."""
        shares = self._shares.get(key)
        if not shares:
            return
        writer, prefills = shares[0], shares[1:]
        self._add(_Share(writer.worker, writer.pending_tokens, 0, 0, 0), -1)
        writer.pending_tokens = 0
        for share in prefills:
            self._free(share, now)
        self._shares[key] = [writer]

    def end(self, key: AttemptKey, now: float) -> None:
        """What the attempt held is free again."""
        for share in self._shares.pop(key, []):
            self._free(share, now)

    def withdraw(self, key: AttemptKey) -> None:
        """The attempt was never taken on: the workers have no more room than before."""
        for share in self._shares.pop(key, []):
            self._add(share, -1)

    def freed_at(self, worker: ProcessId) -> float:
        """When something last ended there; minus infinity if nothing has."""
        account = self._accounts.get(worker)
        return -math.inf if account is None else account.freed_at

    def view(self, worker: ProcessId, now: float) -> WorkerLoad:
        account = self._accounts.get(worker)
        if account is None:
            return WorkerLoad()
        reported = account.reported
        sequences = reported.running + reported.waiting + account.sequences_since
        used = max(account.new_blocks, reported.blocks_used + account.blocks_since)
        return WorkerLoad(
            pending_tokens=account.pending_tokens,
            recent_tokens=account.recent.now(now),
            repeated_tokens=account.repeated.now(now),
            sequences=max(account.sequences, sequences),
            context_blocks=max(account.context_blocks, used),
            blocks_used=used,
            blocks_total=reported.blocks_total,
        )

    def _note_recent(self, worker: ProcessId, tokens: int, whole: int, now: float) -> None:
        """`tokens` of a prompt of `whole` are new to the worker."""
        account = self._accounts.get(worker)
        if account is None:
            return
        account.recent.add(tokens, now)
        if tokens < whole:
            account.repeated.add(tokens, now)

    def _free(self, share: _Share, now: float) -> None:
        self._add(share, -1)
        account = self._accounts.get(share.worker)
        if account is not None:
            account.freed_at = now

    def _add(self, share: _Share, sign: int) -> None:
        """A share of a worker that was dropped weighs on nobody."""
        account = self._accounts.get(share.worker)
        if account is not None:
            account.add(share, sign)
