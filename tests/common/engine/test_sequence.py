"""The life of a sequence: every state against every event."""

import pytest

from common.domain.errors import InvalidTransition
from common.engine.runner import Draw
from common.engine.sequence import STORY_LENGTH, TRANSITIONS, Event, Sequence, State
from tests.support.engines import ROOT, greedy, key
from tests.support.sequences import waiting

WAYS: dict[State, list[Event]] = {
    State.WAITING: [],
    State.HELD: [Event.ADMIT],
    State.RUNNING: [Event.ADMIT, Event.START],
    State.PREEMPTED: [Event.ADMIT, Event.START, Event.PREEMPT],
    State.FINISHED: [Event.FINISH],
}
ALLOWED = {
    (State.WAITING, Event.ADMIT): State.HELD,
    (State.HELD, Event.START): State.RUNNING,
    (State.RUNNING, Event.PREEMPT): State.PREEMPTED,
    (State.PREEMPTED, Event.RESUME): State.RUNNING,
    **{(state, Event.FINISH): State.FINISHED for state in State if state is not State.FINISHED},
}


def in_state(state: State) -> Sequence:
    sequence = waiting("a", prompt=8)
    for event in WAYS[state]:
        sequence.advance(event)
    assert sequence.state is state
    return sequence


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_every_event_in_every_state(state: State, event: Event) -> None:
    sequence = in_state(state)
    if (state, event) in ALLOWED:
        sequence.advance(event)
        assert sequence.state is ALLOWED[state, event]
        assert sequence.story[-1] == (event.value, sequence.state.value)
        return
    story = list(sequence.story)
    with pytest.raises(InvalidTransition, match=f"a#0.0: {event.value} while {state.value}"):
        sequence.advance(event)
    assert sequence.state is state
    assert list(sequence.story) == story


def test_the_table_says_no_more_than_that() -> None:
    assert TRANSITIONS == ALLOWED


def test_the_story_stands_in_the_error_and_is_bounded() -> None:
    sequence = in_state(State.RUNNING)
    for _ in range(STORY_LENGTH):
        sequence.advance(Event.PREEMPT)
        sequence.advance(Event.RESUME)
    assert len(sequence.story) == STORY_LENGTH
    sequence.advance(Event.FINISH)
    with pytest.raises(InvalidTransition, match=r"\('finish', 'finished'\)\]"):
        sequence.advance(Event.START)


def with_tokens(prompt: int, output: int) -> Sequence:
    tokens = list(range(prompt + output))
    sequence = Sequence(key("a"), 0, tokens[:prompt], greedy(99), 0, ROOT)
    sequence.output = tokens[prompt:]
    return sequence


@pytest.mark.parametrize(("prompt", "output"), [(1, 0), (5, 0), (5, 4), (1, 7)])
def test_tokens_of_prompt_and_output_lie_end_to_end(prompt: int, output: int) -> None:
    sequence = with_tokens(prompt, output)
    everything = list(range(prompt + output))
    assert sequence.length == prompt + output
    for start in range(len(everything) + 1):
        for stop in range(start, len(everything) + 1):
            assert sequence.tokens(start, stop) == everything[start:stop]


def test_what_remains_tells_prefill_from_decode() -> None:
    sequence = with_tokens(10, 0)
    assert (sequence.remaining, sequence.prompt_done) == (10, False)
    sequence.computed = 10
    assert (sequence.remaining, sequence.prompt_done) == (0, True)
    sequence.output.append(3)
    assert sequence.remaining == 1, "a decode"


def test_the_table_travels_as_int32() -> None:
    sequence = with_tokens(3, 0)
    sequence.table = [7, 2]
    assert sequence.table_array().tolist() == [7, 2]
    assert sequence.table_array().dtype == "int32"


def test_the_tables_array_is_made_anew_only_when_the_table_has_changed() -> None:
    sequence = with_tokens(3, 0)
    assert sequence.table_array().tolist() == []
    sequence.table = [7, 2]
    before = sequence.table_array()
    assert sequence.table_array() is before
    sequence.table.append(5)
    assert sequence.table_array().tolist() == [7, 2, 5]
    assert before.tolist() == [7, 2], "a batch may still have it"
    sequence.table = [1, 2, 3]
    assert sequence.table_array().tolist() == [1, 2, 3], "other blocks, as many as before"
    sequence.table = []
    assert sequence.table_array().tolist() == []


@pytest.mark.parametrize(("output", "newest"), [(0, 4), (3, 7)])
def test_the_newest_token_is_the_last_of_prompt_and_output(output: int, newest: int) -> None:
    assert with_tokens(5, output).newest == newest


def test_a_draw_is_made_anew_only_for_another_row_or_choice() -> None:
    sequence = with_tokens(3, 1)
    draw = sequence.draw(4, 0)
    assert draw == Draw(4, sequence.params, 0, sequence.prompt, sequence.output)
    sequence.output.append(9)
    assert sequence.draw(4, 0) is draw
    assert draw.output[-1] == 9, "it sees what was drawn since"
    assert (sequence.draw(4, 1).row, sequence.draw(4, 1).choice) == (4, 1)
    assert sequence.draw(4, 0) is draw
    assert (sequence.draw(5, 0).row, sequence.draw(5, 0).choice) == (5, 0)
