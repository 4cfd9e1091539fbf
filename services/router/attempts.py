"""The attempts in flight, and the shell around their state machine.

Turns messages, deaths and time into events of a record and carries out the actions that come back.
One place drops late messages: an attempt that is not here, or not with that writer, does not exist.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import assert_never

import structlog

from common.domain.errors import ErrorCode, InvalidTransition, Overloaded
from common.domain.ids import AttemptKey, ProcessId, RequestId
from common.domain.peer import PeerRef
from common.wire.messages.submit import Cancel, Failed, Placed, Submit
from common.wire.messages.work import Accepted, Assign, Ended, PromptDone
from services.router.fleet import Fleet
from services.router.lifecycle import (
    CANCEL_LAPSE_S,
    PLACED,
    TERMINAL,
    Action,
    CancelLapsed,
    CancelWanted,
    Event,
    Hopeless,
    LeaveQueue,
    Planned,
    PromptComputed,
    Record,
    Requeue,
    SendAssign,
    SendCancel,
    SendFailed,
    SendPlaced,
    State,
    TakeLoad,
    TakePromptLoad,
    WriterAccepted,
    WriterBusy,
    WriterEnded,
    WriterFailed,
    WriterLost,
    advance,
    check_invariants,
)
from services.router.metrics import RouterMetrics
from services.router.placement import Outcome, Placement, Policy, Refusal, Wait, need_of
from services.router.plan import PlanRules, plan, refuse
from services.router.queue import AttemptQueue

RECENT = 256
NO_CARD_BLOCK_TOKENS = 16
log = structlog.get_logger()
FromWriter = Accepted | PromptDone | Ended | Failed


class Attempts:
    def __init__(
        self,
        fleet: Fleet,
        policy: tuple[str, Policy],
        queue: AttemptQueue,
        rules: PlanRules,
        metrics: RouterMetrics,
        clock: Callable[[], float],
    ) -> None:
        self._fleet = fleet
        self._policy_name, self._policy = policy
        self._queue = queue
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._records: dict[AttemptKey, Record] = {}
        self._latest: dict[RequestId, AttemptKey] = {}
        self._recent: deque[dict[str, object]] = deque(maxlen=RECENT)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def queued(self) -> int:
        return len(self._queue)

    def by_state(self) -> dict[str, int]:
        counts = dict.fromkeys((s.value for s in State if s not in TERMINAL), 0)
        for record in self._records.values():
            counts[record.state.value] += 1
        return counts

    def stories(self) -> list[dict[str, object]]:
        """Of what lives and of what ended last."""
        return [*self._recent, *(_story(record) for record in self._records.values())]

    def submit(self, gateway: PeerRef, submit: Submit) -> None:
        """Raises ProtocolError if it makes no sense."""
        key = submit.key
        earlier = self._latest.get(key.request)
        if earlier is not None and earlier.attempt >= key.attempt:
            log.info("attempt_repeated", request_id=key.request, attempt=key.attempt)
            return
        card = self._fleet.members.card
        need = need_of(submit, card.block_tokens if card else NO_CARD_BLOCK_TOKENS)
        now = self._clock()
        deadline = now + submit.deadline_ms / 1000 if submit.deadline_ms > 0 else None
        record = Record(submit, gateway, need, now, deadline)
        if earlier is not None:
            # The gateway has given the earlier one up, whatever we believe.
            self._advance(earlier, CancelWanted())
        self._records[key] = record
        self._latest[key.request] = key
        refusal = refuse(need, self._fleet.cluster((), record, now)) or self._enqueue(record)
        if refusal is not None:
            self._advance(key, Hopeless(refusal))
        self.pump()

    def _enqueue(self, record: Record) -> Refusal | None:
        try:
            self._queue.push(record)
        except Overloaded as full:
            return Refusal(full.code, str(full), full.retryable, full.retry_after_ms)
        return None

    def cancel(self, key: AttemptKey, gateway: ProcessId) -> None:
        record = self._records.get(key)
        if record is not None and record.gateway.id == gateway:
            self._advance(key, CancelWanted())

    def from_writer(self, process: ProcessId, message: FromWriter) -> None:
        """Raises InvalidTransition for what this writer cannot say now."""
        record = self._records.get(message.key)
        placement = record.placement if record is not None else None
        if record is None or placement is None or placement.writer != process:
            return
        self._advance(message.key, _event(record, message))

    def worker_lost(self, process: ProcessId) -> None:
        """Attempts it writes are over. One whose prompt it computes is its writer's to recover."""
        for record in list(self._records.values()):
            placement = record.placement
            if record.state in PLACED and placement and placement.writer == process:
                self._advance(record.submit.key, WriterLost())

    def gateway_lost(self, process: ProcessId) -> None:
        """It is told as well: silent is not dead, and it may still wait when it wakes."""
        unseen = Refusal(
            ErrorCode.ROUTER_LOST, "the router lost sight of the gateway", retryable=True
        )
        for record in list(self._records.values()):
            if record.gateway.id == process:
                self._fleet.reply(process, _failed(record.submit.key, unseen))
                self._advance(record.submit.key, CancelWanted())

    def expire(self) -> None:
        """Deadlines of what waits, and cancels that nobody answers."""
        now = self._clock()
        for record in self._queue.expired(now):
            late = Refusal(ErrorCode.DEADLINE, "the deadline passed in the queue")
            self._advance(record.submit.key, Hopeless(late))
        for record in list(self._records.values()):
            if record.state is State.CANCELLING and now - record.since >= CANCEL_LAPSE_S:
                self._advance(record.submit.key, CancelLapsed())

    def turn_away(self) -> None:
        """The router leaves: what waits may try elsewhere."""
        for record in self._queue.waiting():
            leaving = Refusal(ErrorCode.ROUTER_LOST, "the router is stopping", retryable=True)
            self._advance(record.submit.key, Hopeless(leaving))

    def check_invariants(self) -> None:
        """Raises InvalidTransition if a record and the queue disagree, or one with itself."""
        waiting = {record.submit.key for record in self._queue.waiting()}
        for key, record in self._records.items():
            check_invariants(record)
            if (record.state is State.QUEUED) != (key in waiting):
                raise InvalidTransition(f"{key} is {record.state}, queue says otherwise")

    def pump(self) -> None:
        """Place from the head of the queue until something has to wait."""
        while (record := self._queue.head()) is not None:
            outcome = self._plan(record)
            match outcome:
                case Wait():
                    return
                case Placement():
                    self._count(outcome)
                    self._advance(record.submit.key, Planned(outcome))
                case Refusal():
                    self._advance(record.submit.key, Hopeless(outcome))
                case _:
                    assert_never(outcome)

    def _plan(self, record: Record) -> Outcome:
        # Not the loop's clock: that one stands still within a turn of the loop.
        start = perf_counter()
        cluster = self._fleet.cluster(record.need.units, record, self._clock())
        outcome = plan(record.need, cluster, self._policy, self._rules)
        self._metrics.plan_seconds.observe(perf_counter() - start)
        return outcome

    def _count(self, placement: Placement) -> None:
        computes = "prefill" if placement.prefill is not None else "writer"
        self._metrics.decisions.labels(self._policy_name, computes).inc()
        self._metrics.prompt_tokens.inc(placement.prompt_tokens)
        self._metrics.matched_tokens.inc(placement.prompt_tokens - placement.uncached_tokens)

    def _advance(self, key: AttemptKey, event: Event) -> None:
        record = self._records[key]
        now = self._clock()
        actions = advance(record, event, now)
        if actions:
            log.debug(
                "attempt_advanced",
                request_id=key.request,
                attempt=key.attempt,
                event_name=type(event).__name__,
                state=record.state.value,
            )
        if record.state in TERMINAL:
            self._close(record, event)
        for action in actions:
            self._do(record, action, now)

    def _close(self, record: Record, event: Event) -> None:
        key = record.submit.key
        del self._records[key]
        if self._latest.get(key.request) == key:
            del self._latest[key.request]
        self._queue.forget(key)
        self._recent.append(_story(record))
        self._metrics.attempts.labels(_outcome(record, event)).inc()
        log.info(
            "attempt_closed",
            request_id=key.request,
            attempt=key.attempt,
            outcome=_outcome(record, event),
        )

    def _do(self, record: Record, action: Action, now: float) -> None:
        key = record.submit.key
        match action:
            case SendAssign(placement, queue_ms):
                self._assign(record, placement, queue_ms, now)
            case SendPlaced(placement):
                self._announce(record, placement)
            case SendFailed(refusal):
                self._fleet.reply(record.gateway.id, _failed(key, refusal))
            case SendCancel(writer):
                self._fleet.send(writer, Cancel(key))
            case Requeue():
                self._metrics.refused.inc()
                self._queue.put_back(record)
            case LeaveQueue():
                self._queue.leave(key)
            case TakePromptLoad():
                self._fleet.book.prompt_done(key, now)
            case TakeLoad(held):
                if held:
                    self._fleet.book.end(key, now)
                else:
                    self._fleet.book.withdraw(key)
            case _:
                assert_never(action)

    def _assign(self, record: Record, placement: Placement, queue_ms: float, now: float) -> None:
        members = self._fleet.members
        member = members.get(placement.prefill) if placement.prefill is not None else None
        self._fleet.book.place(record.submit.key, placement, now)
        # The worker counts the deadline from now on: what was spent waiting is gone.
        submit = record.submit
        if record.deadline_at is not None:
            left_ms = max(1, int((record.deadline_at - now) * 1000))
            submit = replace(submit, deadline_ms=left_ms)
        prefill = member.ref if member is not None else None
        assign = Assign(submit, record.gateway, prefill, queue_ms)
        if not self._fleet.send(placement.writer, assign):
            self._advance(record.submit.key, WriterBusy())

    def _announce(self, record: Record, placement: Placement) -> None:
        writer = self._fleet.members.get(placement.writer)
        if writer is not None:
            prefill = placement.prefill.name if placement.prefill is not None else ""
            self._fleet.reply(record.gateway.id, Placed(record.submit.key, writer.ref, prefill))


def _event(record: Record, message: FromWriter) -> Event:
    match message:
        case Accepted():
            return WriterAccepted()
        case PromptDone():
            return PromptComputed()
        case Ended():
            return WriterEnded()
        case Failed():
            if record.state is State.ASSIGNED and message.retryable:
                return WriterBusy()
            retry = (message.retryable, message.retry_after_ms)
            return WriterFailed(Refusal(message.code, message.message, *retry))
        case _:
            assert_never(message)


def _failed(key: AttemptKey, refusal: Refusal) -> Failed:
    return Failed(key, refusal.code, refusal.message, refusal.retryable, refusal.retry_after_ms)


def _outcome(record: Record, event: Event) -> str:
    if record.state is not State.FAILED:
        return record.state.value
    match event:
        case Hopeless(refusal) | WriterFailed(refusal):
            return refusal.code.name.lower()
        case _:
            return ErrorCode.WORKER_LOST.name.lower()


def _story(record: Record) -> dict[str, object]:
    return {
        "request": record.submit.key.request,
        "attempt": record.submit.key.attempt,
        "gateway": record.gateway.name,
        "state": record.state.value,
        "writer": record.placement.writer.name if record.placement else None,
        "story": [
            {"at": step.at, "before": step.before, "event": step.event, "after": step.after}
            for step in record.story
        ],
    }
