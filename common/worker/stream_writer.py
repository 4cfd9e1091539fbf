"""Tokens to gateways: one message per engine step and gateway, straight past the router.

Rows are collected while the events of one step are handled and sent by `flush`. A finished attempt
stays here until its gateway has acknowledged the end.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, ProcessId
from common.domain.ledger import Ledger
from common.engine.runner import Drawn
from common.wire.columns import pack_i32
from common.wire.messages.tokens import Finished, TokenBatch, TokenLogprobs
from common.worker.logprobs import pack_one
from common.worker.peer_links import PeerLinks

RESEND_S = 1.0


@dataclass(slots=True)
class _Rows:
    """The rows of one step for one gateway."""

    entries: list[tuple[str, int, int, int, int, int, bool]] = field(default_factory=list)
    """Request, attempt, choice, start, count, finish, with logprobs. At least one when sent."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    def batch(self) -> TokenBatch:
        requests, attempts, choices, starts, counts, finishes, with_logprobs = zip(
            *self.entries, strict=True
        )
        return TokenBatch(
            requests,
            pack_i32(attempts),
            pack_i32(choices),
            pack_i32(starts),
            pack_i32(counts),
            pack_i32(self.tokens),
            bytes(finishes),
            tuple(self.logprobs),
            bytes(with_logprobs),
        )


@dataclass(slots=True)
class _Ended:
    gateway: ProcessId
    message: Finished
    resend_at: float


class StreamWriter:
    """All streams of one worker."""

    def __init__(self, gateways: PeerLinks) -> None:
        self._gateways = gateways
        self._rows: dict[ProcessId, _Rows] = {}
        self._ended: dict[AttemptKey, _Ended] = {}

    def emit(
        self,
        gateway: ProcessId,
        key: AttemptKey,
        choice: int,
        start: int,
        drawn: Sequence[Drawn],
        finish: FinishReason | None,
    ) -> None:
        """Add tokens start.. of one choice; none at all for a late finish."""
        rows = self._rows.get(gateway)
        if rows is None:
            rows = self._rows[gateway] = _Rows()
        rows.tokens += [token.token for token in drawn]
        wanted = bool(drawn) and None not in [token.logprob for token in drawn]
        rows.entries.append(
            (key.request, key.attempt, choice, start, len(drawn), finish or 0, wanted)
        )
        if wanted:
            rows.logprobs += [pack_one(token) for token in drawn]

    def flush(self) -> None:
        """Send what the step gave. To a gateway that is gone nothing is owed."""
        rows_of, self._rows = self._rows, {}
        for gateway, rows in rows_of.items():
            self._gateways.send(gateway, rows.batch())

    def finish(self, gateway: ProcessId, key: AttemptKey, ledger: Ledger) -> None:
        """Every choice has ended; the last tokens were emitted and flushed before."""
        now = asyncio.get_running_loop().time()
        message = Finished(key, ledger)
        if self._gateways.send(gateway, message):
            self._ended[key] = _Ended(gateway, message, now + RESEND_S)

    def acknowledged(self, key: AttemptKey) -> None:
        self._ended.pop(key, None)

    def gateway_lost(self, gateway: ProcessId) -> None:
        for key in [key for key, ended in self._ended.items() if ended.gateway == gateway]:
            del self._ended[key]

    def resend(self, now: float) -> None:
        for ended in self._ended.values():
            if ended.resend_at <= now:
                ended.resend_at = now + RESEND_S
                self._gateways.send(ended.gateway, ended.message)

    def __len__(self) -> int:
        return len(self._ended)
