"""Every workload of the table: a seed says everything, nothing is made before it is asked for."""

import json
from collections.abc import Callable
from itertools import islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from loadtest.session import Session
from loadtest.workload import Workload
from loadtest.workloads import WORKLOADS, AnyWorkload
from loadtest.writer import WordWriter
from tests.support.workload_examples import EXAMPLES, taken

LIMIT = 10
every_workload = pytest.mark.parametrize("kind", WORKLOADS)
Example = Callable[[str], Workload]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp("workloads")
    return lambda kind: EXAMPLES[kind](folder)


def spoken(sessions: list[Session]) -> list[str]:
    return [m.content for s in sessions for turn in s.turns for m in turn.messages]


def test_every_workload_has_an_example() -> None:
    assert EXAMPLES.keys() == WORKLOADS.keys()


@every_workload
def test_its_kind_is_its_name_in_the_table_and_it_is_read_by_it(
    kind: str, example: Example
) -> None:
    workload = example(kind)
    assert workload.kind == kind
    as_data = json.loads(workload.model_dump_json())
    assert TypeAdapter[Workload](AnyWorkload).validate_python(as_data) == workload


@every_workload
def test_it_takes_no_parameter_that_it_does_not_know(kind: str, example: Example) -> None:
    with pytest.raises(ValidationError, match="unheard_of"):
        WORKLOADS[kind].model_validate(example(kind).model_dump() | {"unheard_of": 1})


@every_workload
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**48))
def test_the_same_seed_gives_the_same_sessions(kind: str, seed: int, example: Example) -> None:
    assert taken(example(kind), LIMIT, seed) == taken(example(kind), LIMIT, seed)


@every_workload
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**48))
def test_another_seed_gives_others(kind: str, seed: int, example: Example) -> None:
    # Words of a few sessions, or the order of twelve: by chance the same once in millions.
    workload = example(kind)
    assert spoken(taken(workload, LIMIT, seed)) != spoken(taken(workload, LIMIT, seed + 1))


@every_workload
def test_however_many_are_taken_they_begin_alike(kind: str, example: Example) -> None:
    few = taken(example(kind), 3)
    assert few
    assert taken(example(kind), LIMIT)[: len(few)] == few


@every_workload
def test_two_iterators_of_one_workload_do_not_disturb_each_other(
    kind: str, example: Example
) -> None:
    workload = example(kind)
    one, two = workload.sessions(3, WordWriter()), workload.sessions(3, WordWriter())
    pairs = list(islice(zip(one, two, strict=True), LIMIT))
    assert pairs
    assert all(left == right for left, right in pairs)


@every_workload
def test_every_turn_says_something_and_asks_for_something(kind: str, example: Example) -> None:
    for session in taken(example(kind), LIMIT):
        assert session.turns[0].pause_s == 0
        for number, turn in enumerate(session.turns):
            assert turn.max_tokens >= 1
            assert turn.pause_s >= 0
            assert turn.messages
            assert all(message.content.strip() for message in turn.messages)
            assert turn.messages[-1].role == "user"
            assert not number or all(message.role == "user" for message in turn.messages)


@every_workload
def test_moments_of_a_trace_begin_at_zero_and_never_fall(kind: str, example: Example) -> None:
    moments = [session.at_s for session in taken(example(kind), LIMIT)]
    told = [at for at in moments if at is not None]
    assert len(told) in (0, len(moments)), "all sessions have one, or none"
    assert told == sorted(told)
    assert told[:1] in ([], [0.0])


class CountingWriter:
    def __init__(self) -> None:
        self.texts = 0

    def write(self, tokens: int, random: Random) -> str:
        self.texts += 1
        return " word" * tokens


@every_workload
def test_nothing_is_written_before_it_is_taken(kind: str, example: Example) -> None:
    writer = CountingWriter()
    sessions = example(kind).sessions(0, writer)
    assert writer.texts == 0
    first = next(sessions)
    assert writer.texts <= 3 * len(first.turns)
