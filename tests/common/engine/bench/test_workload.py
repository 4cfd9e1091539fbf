import pytest

from common.engine.bench.workload import (
    Answered,
    EndedEarly,
    Progress,
    answer,
    disturb,
    first_token,
    prompt_of,
)
from tests.support.fake_peer import FakePeer


class Scripted:
    """Takes `costs` of virtual seconds, one a step; the last one goes on for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, costs: list[float]) -> None:
        self.now = 0.0
        self.steps = 0
        self.costs = costs
        self.inner = FakePeer()
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        self.inner.add(name, prompt, tokens)

    def drop(self, name: str) -> None:
        self.inner.drop(name)

    def step(self) -> list[Progress]:
        self.now += self.costs[min(self.steps, len(self.costs) - 1)]
        self.steps += 1
        return self.inner.step()


def test_prompts_come_from_their_seed_and_stay_in_the_vocabulary() -> None:
    assert prompt_of(50, 20, 1) == prompt_of(50, 20, 1)
    assert prompt_of(50, 20, 1) != prompt_of(50, 20, 2)
    assert set(prompt_of(50, 2000, 1)) == set(range(3, 50))


def test_the_first_token_takes_as_long_as_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_token(Scripted(monkeypatch, [0.5]), [1, 2]) == 0.5


def test_streams_are_timed_from_their_common_start(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = answer(Scripted(monkeypatch, [4.0, 1.0]), [[1], [2], [3]], 5)
    assert answered == Answered(seconds=8.0, tokens=15, decode_seconds=4.0, decode_tokens=12)
    assert answered.tokens_s == 15 / 8
    assert answered.decode_tokens_s == 3.0


def test_a_single_token_has_no_decode_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(Scripted(monkeypatch, [1.0]), [[1]], 1).decode_tokens_s == 0.0


def test_the_gap_is_the_one_in_which_the_long_prompt_is_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Scripted(monkeypatch, [9.0, 1.0, 1.0, 7.0, 1.0, 30.0])
    disturbed = disturb(engine, [[1], [2]], [5] * 9, before=3)
    assert disturbed.longest_gap_s == 7.0
    assert disturbed.idle_gap_s == 1.0
    assert disturbed.first_token_s == 7.0
    assert engine.inner.dropped == ["stream-0", "stream-1"]


def test_a_stream_that_ends_early_is_not_measured() -> None:
    class Deaf(FakePeer):
        """Never gets to the long prompt."""

        def add(self, name: str, prompt: list[int], tokens: int) -> None:
            if name != "long":
                super().add(name, prompt, min(tokens, 5))

    with pytest.raises(EndedEarly):
        disturb(Deaf(), [[1]], [2], before=3)
