"""The stream's table: total, one ending, no token lost or repeated."""

import itertools
import random

import pytest

from common.domain.errors import ErrorCode, InvalidTransition
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from services.gateway.streams import (
    ENDED,
    IGNORED,
    STORY_LENGTH,
    TRANSITIONS,
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
    check_invariants,
)

S = StreamState
WRITER = PeerRef(ProcessName("decode-0"), Incarnation(5), Role.DECODE, "mem://decode-0")
OTHER = ProcessId(ProcessName("decode-1"), Incarnation(6))
PLACED = AttemptPlaced(WRITER, "prefill-0")
NO = Failure(ErrorCode.OVERLOADED, "full", retryable=True, retry_after_ms=500)
EVENTS: tuple[type[StreamEvent], ...] = (
    AttemptPlaced, TokensCame, ChoiceStopped, WriterDone, AttemptFailed,
    WriterLost, RouterLost, ClientGone, LedgerOverdue,
)  # fmt: skip


def stream(choices: int = 1, max_tokens: int = 8) -> Stream:
    return Stream(AttemptKey(RequestId("r"), 1), choices, max_tokens)


def tokens(
    *ids: int,
    start: int = 0,
    choice: int = 0,
    finish: FinishReason | None = None,
    source: ProcessId = WRITER.id,
) -> TokensCame:
    return TokensCame(source, choice, start, ids, finish)


def feed(record: Stream, *events: StreamEvent) -> list[Action]:
    actions: list[Action] = []
    for event in events:
        actions += advance(record, event, now=1.0)
        check_invariants(record)
    return actions


IN: dict[StreamState, tuple[StreamEvent, ...]] = {
    S.SUBMITTED: (),
    S.PLACED: (PLACED,),
    S.STREAMING: (PLACED, tokens(1)),
    S.CLOSING: (PLACED, tokens(1, finish=FinishReason.STOP)),
    S.FINISHED: (PLACED, tokens(1, finish=FinishReason.STOP), WriterDone(Ledger())),
    S.FAILED: (AttemptFailed(NO),),
    S.CANCELLED: (ClientGone(),),
}
SAMPLE: dict[type[StreamEvent], StreamEvent] = {
    AttemptPlaced: PLACED,
    TokensCame: tokens(9, start=1),
    ChoiceStopped: ChoiceStopped(0),
    WriterDone: WriterDone(Ledger()),
    AttemptFailed: AttemptFailed(NO),
    WriterLost: WriterLost(),
    RouterLost: RouterLost(),
    ClientGone: ClientGone(),
    LedgerOverdue: LedgerOverdue(),
}


def in_state(state: StreamState) -> Stream:
    record = stream()
    feed(record, *IN[state])
    assert record.state is state
    return record


def test_no_place_of_the_table_is_both_ignored_and_a_transition() -> None:
    assert not TRANSITIONS.keys() & IGNORED


@pytest.mark.parametrize(("state", "kind"), [*itertools.product(S, EVENTS)])
def test_every_pair_moves_as_the_table_says_or_is_ignored_or_raises(
    state: StreamState, kind: type[StreamEvent]
) -> None:
    record, place = in_state(state), (state, kind)
    event = SAMPLE[kind] if state is not S.SUBMITTED or kind is not TokensCame else tokens(9)
    if place in IGNORED:
        assert advance(record, event, 2.0) == ()
        assert record.state is state
    elif place in TRANSITIONS:
        advance(record, event, 2.0)
        assert record.state in TRANSITIONS[place]
        check_invariants(record)
    else:
        with pytest.raises(InvalidTransition, match="r#1"):
            advance(record, event, 2.0)


@pytest.mark.parametrize("state", sorted(ENDED, key=str))
def test_nothing_happens_after_the_end(state: StreamState) -> None:
    record = in_state(state)
    assert feed(record, *SAMPLE.values()) == []
    assert record.state is state


def test_a_whole_life() -> None:
    record = stream()
    actions = feed(
        record,
        PLACED,
        tokens(1, 2),
        tokens(3, start=2, finish=FinishReason.LENGTH),
        WriterDone(Ledger(decode_steps=3)),
    )
    assert actions == [
        Watch(WRITER),
        Deliver(0, (1, 2), None, ()),
        Deliver(0, (3,), FinishReason.LENGTH, ()),
        AwaitLedger(2.0),
        End(),
    ]
    assert record.state is S.FINISHED
    assert record.prefill == "prefill-0"
    assert record.ledger == Ledger(decode_steps=3)
    assert [line.event for line in record.story] == [
        "AttemptPlaced", "TokensCame", "TokensCame", "WriterDone"
    ]  # fmt: skip


def test_tokens_may_come_before_placed() -> None:
    record = stream()
    assert feed(record, tokens(1), PLACED) == [Deliver(0, (1,), None, ()), Watch(WRITER)]
    assert record.state is S.STREAMING


@pytest.mark.parametrize("repeat", [tokens(1), tokens(1, 2), tokens(2, start=1)])
def test_a_repeat_is_dropped(repeat: TokensCame) -> None:
    record = stream()
    feed(record, PLACED, tokens(1, 2))
    assert feed(record, repeat) == []
    assert record.received == [2]


def test_of_a_row_that_overlaps_only_the_new_part_counts() -> None:
    record = stream()
    feed(record, PLACED, tokens(1, 2))
    assert feed(record, tokens(2, 3, start=1)) == [Deliver(0, (3,), None, ())]


def test_a_gap_fails_the_attempt_and_cancels_it() -> None:
    record = stream()
    actions = feed(record, PLACED, tokens(1), tokens(3, start=2))
    assert record.failure is not None
    assert record.failure.code is ErrorCode.INTERNAL
    assert record.failure.retryable
    assert actions[-2:] == [CancelAttempt(), End(record.failure)]


@pytest.mark.parametrize("bad", [tokens(1, choice=1), tokens(1, choice=-1), tokens(*range(9))])
def test_rows_that_cannot_be_fail_the_attempt(bad: TokensCame) -> None:
    record = stream()
    feed(record, PLACED, bad)
    assert record.state is S.FAILED


@pytest.mark.parametrize("reason", [FinishReason.ERROR, FinishReason.CANCELLED])
def test_a_choice_that_the_writer_gave_up_fails_the_attempt(reason: FinishReason) -> None:
    record = stream()
    feed(record, PLACED, tokens(finish=reason))
    assert record.state is S.FAILED


def test_a_stranger_who_writes_into_the_stream_is_refused() -> None:
    record = stream()
    assert feed(record, PLACED, tokens(1, source=OTHER))[-1] == RefuseWriter()
    assert record.received == [0]
    assert feed(record, tokens(7))[-1] == Deliver(0, (7,), None, ())


def test_the_stream_closes_when_the_last_choice_ends() -> None:
    record = stream(choices=2)
    feed(record, PLACED, tokens(1, choice=1, finish=FinishReason.STOP))
    assert record.state is S.STREAMING
    feed(record, tokens(1, finish=FinishReason.STOP))
    assert record.state is S.CLOSING


def test_a_stop_string_on_the_last_open_choice_cancels_the_rest_of_the_work() -> None:
    record = stream(choices=2)
    feed(record, PLACED, tokens(1), tokens(1, choice=1))
    assert feed(record, ChoiceStopped(0)) == []
    assert feed(record, tokens(5, start=1)) == []
    assert feed(record, tokens(9, start=7)) == []
    assert feed(record, ChoiceStopped(1)) == [CancelAttempt(), AwaitLedger(0.1)]
    assert record.state is S.CLOSING


def test_an_empty_row_that_ends_a_choice_is_delivered() -> None:
    record = stream()
    feed(record, PLACED, tokens(1))
    actions = feed(record, tokens(start=1, finish=FinishReason.LENGTH))
    assert actions[0] == Deliver(0, (), FinishReason.LENGTH, ())


def test_router_lost_fails_only_what_is_not_placed() -> None:
    waiting, placed = stream(), in_state(S.PLACED)
    feed(waiting, RouterLost())
    feed(placed, RouterLost())
    assert waiting.failure is not None
    assert waiting.failure.code is ErrorCode.ROUTER_LOST
    assert waiting.failure.retryable
    assert placed.state is S.PLACED


def test_writer_lost_fails_the_stream_unless_all_text_is_out() -> None:
    running, closing = in_state(S.STREAMING), in_state(S.CLOSING)
    feed(running, WriterLost())
    feed(closing, WriterLost())
    assert running.failure is not None
    assert running.failure.code is ErrorCode.WORKER_LOST
    assert closing.state is S.FINISHED


@pytest.mark.parametrize("state", [S.SUBMITTED, S.PLACED, S.STREAMING])
def test_a_client_that_leaves_cancels_the_attempt(state: StreamState) -> None:
    record = in_state(state)
    assert feed(record, ClientGone()) == [CancelAttempt(), End()]
    assert record.state is S.CANCELLED


def test_a_writer_that_gives_up_early_fails_the_stream_and_it_may_be_tried_again() -> None:
    record = in_state(S.STREAMING)
    feed(record, WriterDone(Ledger()))
    assert record.state is S.FAILED
    assert record.failure is not None
    assert record.failure.code is ErrorCode.WORKER_LOST
    assert record.failure.retryable


def test_the_story_is_bounded() -> None:
    record = stream(choices=200)
    feed(record, PLACED, *(tokens(1, choice=c) for c in range(200)))
    for choice in range(150):
        feed(record, ChoiceStopped(choice))
    assert len(record.story) == STORY_LENGTH


@pytest.mark.parametrize("seed", range(50))
def test_any_order_of_events_ends_at_most_once_and_delivers_in_order(seed: int) -> None:
    rng = random.Random(seed)
    record = stream(choices=2, max_tokens=6)
    delivered: list[list[int]] = [[], []]
    ends = 0
    others = [event for kind, event in SAMPLE.items() if kind is not TokensCame]
    for _ in range(80):
        choice, start = rng.randrange(2), rng.randrange(4)
        ids = tuple(range(start, start + rng.randrange(3)))
        finish = rng.choice([None, None, None, FinishReason.STOP, FinishReason.LENGTH])
        event = rng.choice(others + [TokensCame(WRITER.id, choice, start, ids, finish)] * 20)
        if (record.state, type(event)) not in TRANSITIONS.keys() | IGNORED:
            continue
        for action in feed(record, event):
            ends += isinstance(action, End)
            if isinstance(action, Deliver):
                delivered[action.choice] += action.tokens
    assert ends == (1 if record.state in ENDED else 0)
    # Token i of a choice is i, so a change of order, a gap and a repeat all show.
    assert delivered == [list(range(len(row))) for row in delivered]
