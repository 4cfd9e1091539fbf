"""The live streams, and the shell around their state machine.

Turns what comes over the wire into events of a stream, and the stream's actions into messages, text
and timers. Everything about a stream happens on the event loop in one call: ids that arrive are
text in the exchange before the handler of the message returns.
"""

import asyncio
from dataclasses import dataclass
from typing import assert_never

import structlog

from common.domain.errors import ErrorCode
from common.domain.ids import AttemptKey, ProcessId, RequestId
from common.runtime.membership import RouterLink
from common.text.tokenizer import Tokenizer
from common.wire.columns import pack_i32
from common.wire.messages.submit import Cancel, Failed, Placed, Submit
from common.wire.messages.tokens import FinishAck, Finished, TokenBatch
from common.wire.port import Link
from services.gateway.exchange import AttemptLost, Exchange
from services.gateway.generation import Generation
from services.gateway.metrics import GatewayMetrics
from services.gateway.recent import Recent, since
from services.gateway.streams import (
    Action,
    AttemptFailed,
    AttemptPlaced,
    AwaitLedger,
    CancelAttempt,
    ChoiceStopped,
    ClientGone,
    Deliver,
    End,
    Failure,
    LedgerOverdue,
    RefuseWriter,
    RouterLost,
    Stream,
    StreamEvent,
    StreamState,
    TokensCame,
    Watch,
    WriterDone,
    WriterLost,
    advance,
)
from services.gateway.text_output import ChoiceText
from services.gateway.token_rows import TokenRow, token_rows
from services.gateway.writers import Writers

log = structlog.get_logger()


@dataclass(slots=True)
class _Live:
    stream: Stream
    exchange: Exchange
    base: int
    """Index of its first choice in the exchange."""
    overdue: asyncio.TimerHandle | None = None


class Attempts:
    def __init__(
        self, router: RouterLink, writers: Writers, tokenizer: Tokenizer, metrics: GatewayMetrics
    ) -> None:
        self._router = router
        self._writers = writers
        self._tokenizer = tokenizer
        self._metrics = metrics
        self._live: dict[AttemptKey, _Live] = {}
        self.recent = Recent()
        self.limit_s = 0.0
        """Of one request, from here to its last token; 0 is none."""
        metrics.watch_running(self.__len__)

    def __len__(self) -> int:
        return len(self._live)

    def submit(self, exchange: Exchange, generation: Generation) -> None:
        """Start one stream of `exchange`. Raises AttemptLost if the router cannot be reached."""
        number = len(exchange.streams)
        name = exchange.id if number == 0 else f"{exchange.id}-{number}"
        sampling = generation.sampling
        key = AttemptKey(RequestId(name), 1)
        sent = self._router.send(
            Submit(
                key,
                pack_i32(generation.prompt),
                generation.units,
                sampling,
                priority=generation.priority,
                deadline_ms=round(self.limit_s * 1e3),
                root=generation.root,
            )
        )
        if not sent:
            message = "the router cannot be reached"
            raise AttemptLost(
                Failure(ErrorCode.ROUTER_LOST, message, retryable=True, retry_after_ms=1000)
            )
        stream = Stream(key, sampling.n, sampling.max_tokens)
        texts = [ChoiceText(self._tokenizer, generation.text) for _ in range(sampling.n)]
        self._live[key] = _Live(stream, exchange, exchange.open(stream, texts))
        exchange.prompt_tokens += len(generation.prompt)
        self.recent.add(exchange)
        self._metrics.prompt_tokens.inc(len(generation.prompt))

    def leave(self, exchange: Exchange) -> None:
        """Nobody waits for this exchange any more: what still runs of it is cancelled."""
        exchange.leave()
        for stream in exchange.streams:
            self._advance(stream.key, ClientGone())

    def placed(self, message: Placed) -> None:
        self._advance(message.key, AttemptPlaced(message.writer, message.prefill))

    def failed(self, link: Link, message: Failed) -> None:
        failure = Failure(message.code, message.message, message.retryable, message.retry_after_ms)
        if self._may_speak(link, message.key):
            self._advance(message.key, AttemptFailed(failure))

    def finished(self, link: Link, message: Finished) -> None:
        """Acknowledged in any case: for a stream that is over, too, the writer may forget it."""
        link.send(FinishAck(message.key))
        if self._may_speak(link, message.key):
            self._advance(message.key, WriterDone(message.ledger))

    def _may_speak(self, link: Link, key: AttemptKey) -> bool:
        """The router speaks for every attempt, a worker only for those it writes."""
        live = self._live.get(key)
        if live is None:
            return False
        return self._router.owns(link) or live.stream.writer in (None, link.peer)

    def tokens(self, link: Link, batch: TokenBatch) -> None:
        """Raises ProtocolError if the batch makes no sense."""
        if link.peer is None:
            return
        rows = token_rows(batch)
        if any(row.key in self._live for row in rows):
            self._writers.heard(link.peer, _now())
        strangers: dict[AttemptKey, None] = {}
        for row in rows:
            if row.key in self._live:
                self._row(link, link.peer, row)
            else:
                strangers[row.key] = None
        for key in strangers:
            link.send(Cancel(key))

    def writer_lost(self, writer: ProcessId) -> None:
        for live in list(self._live.values()):
            if live.stream.writer == writer:
                self._advance(live.stream.key, WriterLost())

    def router_lost(self) -> None:
        for key in list(self._live):
            self._advance(key, RouterLost())

    def writes(self, writer: ProcessId) -> bool:
        return any(live.stream.writer == writer for live in self._live.values())

    def by_writer(self) -> dict[ProcessId, list[AttemptKey]]:
        keys: dict[ProcessId, list[AttemptKey]] = {}
        for key, live in self._live.items():
            if live.stream.writer is not None:
                keys.setdefault(live.stream.writer, []).append(key)
        return keys

    def _row(self, link: Link, source: ProcessId, row: TokenRow) -> None:
        event = TokensCame(source, row.choice, row.start, row.tokens, row.finish, row.logprobs)
        self._advance(row.key, event, link)

    def _advance(self, key: AttemptKey, event: StreamEvent, link: Link | None = None) -> None:
        live = self._live.get(key)
        if live is None:
            return
        for action in advance(live.stream, event, _now()):
            self._perform(live, action, link)

    def _perform(self, live: _Live, action: Action, link: Link | None) -> None:
        key = live.stream.key
        match action:
            case Watch(writer):
                if not self._writers.watch(writer, _now()):
                    self._advance(key, WriterLost())
            case Deliver():
                self._deliver(live, action)
            case CancelAttempt():
                self._cancel(live.stream)
            case RefuseWriter():
                if link is not None:
                    link.send(Cancel(key))
            case AwaitLedger(seconds):
                loop = asyncio.get_running_loop()
                live.overdue = loop.call_later(seconds, self._advance, key, LedgerOverdue())
            case End():
                self._end(live)
            case _:
                assert_never(action)

    def _deliver(self, live: _Live, action: Deliver) -> None:
        index = live.base + action.choice
        self._note_tokens(live.exchange, index, len(action.tokens))
        text = live.exchange.texts[index]
        delta = text.push(action.tokens, action.finish, action.logprobs)
        live.exchange.feed(index, delta)
        if delta.finish is not None and action.finish is None:
            self._advance(live.stream.key, ChoiceStopped(action.choice))

    def _note_tokens(self, exchange: Exchange, index: int, count: int) -> None:
        if count == 0:
            return
        timing, now = exchange.timing, _now()
        self._metrics.output_tokens.inc(count)
        if timing.first_token is None:
            timing.first_token = now
            self._metrics.time_to_first_token.observe(now - timing.arrived)
        if index in timing.last_token:
            self._metrics.inter_token.observe(now - timing.last_token[index])
        timing.last_token[index] = now

    def _cancel(self, stream: Stream) -> None:
        cancel = Cancel(stream.key)
        self._router.send(cancel)
        if stream.writer is not None:
            self._writers.send(stream.writer, cancel)
        self._metrics.cancelled.inc()

    def _end(self, live: _Live) -> None:
        stream, exchange = live.stream, live.exchange
        del self._live[stream.key]
        if live.overdue is not None:
            live.overdue.cancel()
        if stream.ledger is not None:
            self._metrics.cached_tokens.inc(stream.ledger.cached_tokens)
        exchange.stream_ended()
        if exchange.ended and exchange.timing.ended is None:
            self._report(exchange)

    def _report(self, exchange: Exchange) -> None:
        timing = exchange.timing
        timing.ended = _now()
        self._metrics.requests.labels(exchange.endpoint, exchange.outcome).inc()
        if exchange.outcome == StreamState.FINISHED.value:
            last = max(timing.last_token.values(), default=timing.ended)
            self._metrics.end_to_end.observe(last - timing.arrived)
        streams, failure = exchange.streams, exchange.failure
        log.info(
            "request_finished",
            request_id=exchange.id,
            client_request_id=exchange.client_id,
            endpoint=exchange.endpoint,
            status=exchange.outcome,
            failure=None if failure is None else failure.code.name,
            input_tokens=exchange.prompt_tokens,
            output_tokens=exchange.completion_tokens,
            cached_tokens=sum(s.ledger.cached_tokens for s in streams if s.ledger is not None),
            ttft_ms=_ms(since(timing.arrived, timing.first_token)),
            e2e_ms=_ms(since(timing.arrived, timing.ended)),
            prefill_worker=exchange.prefill_workers,
            decode_worker=exchange.writers,
        )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
