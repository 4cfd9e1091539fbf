import io
import sys
from pathlib import Path

import pytest

from common.domain.errors import ServingError
from common.engine.bench.costs import neighbour
from common.engine.bench.costs.neighbour import BUSY, IDLE, Neighbour, calls_of, serve
from common.engine.bench.rig import Rig
from common.engine.bench.spec import Spec
from tests.support.bench_rig import tiny_choice


def test_it_answers_each_word_when_it_has_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words, said, done = tmp_path / "words", io.StringIO(), list[str]()
    words.write_text("idle\nprompts\nidle\n")
    with words.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(sys, "stdout", said)
        monkeypatch.setattr(neighbour.select, "select", lambda r, w, x, t: (r, w, x))
        serve({"prompts": lambda: done.append("prompts")})
    assert said.getvalue() == "idle\nprompts\nidle\n"
    assert done == ["prompts"]


def test_between_two_words_it_computes_over_and_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words, done = tmp_path / "words", list[int]()
    words.write_text("prompts\n")
    ready = iter([True, False, False, True])
    with words.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        monkeypatch.setattr(
            neighbour.select, "select", lambda r, w, x, t: (r if next(ready) else [], w, x)
        )
        serve({"prompts": lambda: done.append(1)})
    assert len(done) == 3


def test_its_work_is_a_prompt_and_decodes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {word: type(step)(min(step.rows, 2), min(step.context, 16), min(step.tokens, 16))
             for word, step in BUSY.items()}  # fmt: skip
    monkeypatch.setattr(neighbour, "BUSY", small)
    calls = calls_of(rig)
    assert calls.keys() == BUSY.keys()
    for call in calls.values():
        call()
    assert rig.runner.take().batches == []


def test_one_that_ended_is_noticed_and_it_never_outlives_the_block(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/cat")
    spec = Spec(tiny_choice(tiny_folder, tmp_path), (), quick=True)
    with Neighbour(spec, 0) as other:
        process = other._process
        process.wait()
        with pytest.raises((ServingError, BrokenPipeError)):
            other.be(IDLE)
    assert process.poll() is not None
