import pytest

from common.engine.bench.engine_streams import EngineStreams
from common.engine.bench.workload import EndedEarly, Progress
from common.engine.mock import MockRunner
from tests.support.engines import prompt_of


def engine(slots: int = 16) -> EngineStreams:
    runner = MockRunner(32)
    size = runner.layout.block_bytes
    runner.bind(memoryview(bytearray(slots * size)), slots, size)
    return EngineStreams(runner, slots)


def until_done(streams: EngineStreams) -> list[Progress]:
    progress: list[Progress] = []
    while not any(part.finished for part in progress):
        progress += streams.step()
    return progress


def test_a_stream_brings_its_tokens_one_by_one_and_then_ends() -> None:
    streams = engine()
    streams.add("a", prompt_of(40), 3)
    assert until_done(streams) == [
        Progress("a", 1, finished=False),
        Progress("a", 1, finished=False),
        Progress("a", 1, finished=True),
    ]


def test_a_prompt_that_comes_again_is_cached() -> None:
    streams = engine()
    for expected in (0, 64):
        streams.add("a", prompt_of(70), 1)
        until_done(streams)
        assert streams.cached_tokens == expected


def test_a_dropped_stream_says_nothing_more() -> None:
    streams = engine()
    streams.add("a", prompt_of(8), 100)
    streams.step()
    streams.drop("a")
    assert [streams.step() for _ in range(3)] == [[], [], []]


def test_a_prompt_that_does_not_fit_is_an_error() -> None:
    streams = engine(slots=1)
    streams.add("a", prompt_of(70), 1)
    with pytest.raises(EndedEarly, match="KV blocks"):
        streams.step()
