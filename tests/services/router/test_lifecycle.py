"""The whole table: every state meets every event."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.errors import ErrorCode, InvalidTransition
from services.router.lifecycle import (
    EVENTS,
    IGNORED,
    PLACED,
    STORY_LENGTH,
    TERMINAL,
    TRANSITIONS,
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
from services.router.placement import Placement, Refusal, need_of
from tests.support.router_world import BLOCK_TOKENS, peer, process, submit

WRITER = process("decode-0")
PLACEMENT = Placement(WRITER, process("prefill-0"), 1, 69, 69, 69, 3, 3, 3)
REFUSAL = Refusal(ErrorCode.CAPACITY, "too large")
EXAMPLES: dict[type[Event], Event] = {
    Planned: Planned(PLACEMENT),
    Hopeless: Hopeless(REFUSAL),
    WriterAccepted: WriterAccepted(),
    WriterBusy: WriterBusy(),
    WriterFailed: WriterFailed(REFUSAL),
    PromptComputed: PromptComputed(),
    WriterEnded: WriterEnded(),
    WriterLost: WriterLost(),
    CancelWanted: CancelWanted(),
    CancelLapsed: CancelLapsed(),
}
PATHS: dict[State, tuple[Event, ...]] = {
    State.QUEUED: (),
    State.ASSIGNED: (Planned(PLACEMENT),),
    State.ACCEPTED: (Planned(PLACEMENT), WriterAccepted()),
    State.STREAMING: (Planned(PLACEMENT), WriterAccepted(), PromptComputed()),
    State.CANCELLING: (Planned(PLACEMENT), WriterAccepted(), CancelWanted()),
    State.ENDED: (Planned(PLACEMENT), WriterAccepted(), WriterEnded()),
    State.FAILED: (Hopeless(REFUSAL),),
    State.CANCELLED: (CancelWanted(),),
}


def fresh() -> Record:
    message = submit("r1")
    return Record(message, peer("gateway-0"), need_of(message, BLOCK_TOKENS), arrived_at=10.0)


def in_state(state: State) -> Record:
    record = fresh()
    for event in PATHS[state]:
        advance(record, event, 10.0)
    assert record.state is state
    return record


def test_the_examples_and_paths_cover_everything() -> None:
    assert set(EXAMPLES) == set(EVENTS)
    assert set(PATHS) == set(State)
    assert not IGNORED & set(TRANSITIONS)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", EVENTS)
def test_every_event_has_a_row_is_ignorable_or_raises(state: State, kind: type[Event]) -> None:
    record = in_state(state)
    told = len(record.story)
    pair = (state, kind)
    if pair in TRANSITIONS:
        advance(record, EXAMPLES[kind], 11.0)
        assert record.state is TRANSITIONS[pair]
        assert record.since == 11.0
        assert len(record.story) == told + 1
        check_invariants(record)
    elif pair in IGNORED:
        assert advance(record, EXAMPLES[kind], 11.0) == ()
        assert (record.state, len(record.story)) == (state, told)
    else:
        with pytest.raises(InvalidTransition, match=f"{kind.__name__} while {state}"):
            advance(record, EXAMPLES[kind], 11.0)
        assert (record.state, len(record.story)) == (state, told)


def test_terminal_states_have_no_way_out() -> None:
    assert not {state for state, _ in TRANSITIONS} & TERMINAL
    assert not {state for state, _ in IGNORED} & TERMINAL


@pytest.mark.parametrize("state", [s for s in State if s not in TERMINAL])
def test_a_cancel_is_valid_in_every_living_state(state: State) -> None:
    assert (state, CancelWanted) in TRANSITIONS or (state, CancelWanted) in IGNORED


@pytest.mark.parametrize("state", sorted(PLACED))
def test_the_loss_of_the_writer_ends_every_placed_state(state: State) -> None:
    record = in_state(state)
    actions = advance(record, WriterLost(), 11.0)
    assert record.state in TERMINAL
    failed = [action for action in actions if isinstance(action, SendFailed)]
    if state is State.CANCELLING:
        assert failed == []
    else:
        assert failed[0].refusal.code is ErrorCode.WORKER_LOST
        assert failed[0].refusal.retryable
    assert TakeLoad() in actions


def test_a_plan_takes_it_from_the_queue_and_counts_the_wait() -> None:
    record = fresh()
    assert advance(record, Planned(PLACEMENT), 10.5) == (
        LeaveQueue(),
        SendAssign(PLACEMENT, 500.0),
    )


def test_a_refusal_puts_it_back_without_freeing_what_was_never_held() -> None:
    record = in_state(State.ASSIGNED)
    assert advance(record, WriterBusy(), 11.0) == (TakeLoad(held=False), Requeue())
    assert record.placement is None
    assert record.refused_at == {WRITER: 11.0}
    assert advance(record, Planned(PLACEMENT), 13.0) == (
        LeaveQueue(),
        SendAssign(PLACEMENT, 2000.0),
    )


def test_waits_add_up_over_refusals() -> None:
    record = fresh()
    advance(record, Planned(PLACEMENT), 11.0)
    advance(record, WriterBusy(), 15.0)
    assert advance(record, Planned(PLACEMENT), 17.0)[1] == SendAssign(PLACEMENT, 3000.0)


def test_the_gateway_hears_of_acceptance_and_of_failure_only() -> None:
    assert advance(in_state(State.ASSIGNED), WriterAccepted(), 11.0) == (SendPlaced(PLACEMENT),)
    assert advance(in_state(State.ACCEPTED), PromptComputed(), 11.0) == (TakePromptLoad(),)
    assert advance(in_state(State.STREAMING), WriterEnded(), 11.0) == (TakeLoad(),)
    failed = advance(in_state(State.STREAMING), WriterFailed(REFUSAL), 11.0)
    assert failed == (TakeLoad(), SendFailed(REFUSAL))


def test_a_cancel_goes_to_the_writer_only_when_there_is_one() -> None:
    assert advance(in_state(State.QUEUED), CancelWanted(), 11.0) == (LeaveQueue(),)
    for state in (State.ASSIGNED, State.ACCEPTED, State.STREAMING):
        assert advance(in_state(state), CancelWanted(), 11.0) == (SendCancel(WRITER),)


def test_a_cancelled_attempt_is_never_queued_again() -> None:
    record = in_state(State.CANCELLING)
    assert advance(record, WriterBusy(), 11.0) == (TakeLoad(),)
    assert record.state is State.CANCELLED


def test_the_story_keeps_the_last_transitions() -> None:
    record = fresh()
    for turn in range(STORY_LENGTH):
        advance(record, Planned(PLACEMENT), float(turn))
        advance(record, WriterBusy(), turn + 0.5)
    assert len(record.story) == STORY_LENGTH
    assert record.story[-1].after is State.QUEUED
    assert "assigned WriterBusy -> queued" in record.told()
    check_invariants(record)


def test_a_record_that_contradicts_itself_is_found() -> None:
    for state, broken in [
        (State.STREAMING, {"placement": None}),
        (State.QUEUED, {"placement": PLACEMENT}),
        (State.ACCEPTED, {"state": State.STREAMING}),
    ]:
        record = replace(in_state(state), **broken)
        with pytest.raises(InvalidTransition, match="r1#1"):
            check_invariants(record)
    record = in_state(State.STREAMING)
    del record.story[1]
    with pytest.raises(InvalidTransition, match="hole"):
        check_invariants(record)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_load_and_queue_are_balanced_on_every_path(kinds: list[type[Event]]) -> None:
    record = fresh()
    loads, queued = 0, 1
    for now, kind in enumerate(kinds):
        pair = (record.state, kind)
        if pair not in TRANSITIONS and pair not in IGNORED:
            continue
        for action in advance(record, EXAMPLES[kind], float(now + 10)):
            match action:
                case SendAssign():
                    loads += 1
                case TakeLoad():
                    loads -= 1
                case Requeue():
                    queued += 1
                case LeaveQueue():
                    queued -= 1
        check_invariants(record)
        assert loads == (record.state in PLACED)
        assert queued == (record.state is State.QUEUED)
