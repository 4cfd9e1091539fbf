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

    requests: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    choices: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    finishes: bytearray = field(default_factory=bytearray)
    with_logprobs: bytearray = field(default_factory=bytearray)
    logprobs: list[TokenLogprobs] = field(default_factory=list)

    def batch(self) -> TokenBatch:
        return TokenBatch(
            tuple(self.requests),
            pack_i32(self.attempts),
            pack_i32(self.choices),
            pack_i32(self.starts),
            pack_i32(self.counts),
            pack_i32(self.tokens),
            bytes(self.finishes),
            tuple(self.logprobs),
            bytes(self.with_logprobs),
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
        rows = self._rows.setdefault(gateway, _Rows())
        rows.requests.append(key.request)
        rows.attempts.append(key.attempt)
        rows.choices.append(choice)
        rows.starts.append(start)
        rows.counts.append(len(drawn))
        rows.tokens += [token.token for token in drawn]
        rows.finishes.append(finish or 0)
        wanted = bool(drawn) and all(token.logprob is not None for token in drawn)
        rows.with_logprobs.append(wanted)
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
