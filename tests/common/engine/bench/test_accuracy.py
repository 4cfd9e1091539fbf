import json
from pathlib import Path

import pytest

from common.engine.bench.accuracy import main, text_of
from tests.support.native_bench import NEEDS_NATIVE, wide_qwen3


@NEEDS_NATIVE
def test_both_arithmetics_are_compared_with_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path / "cache"))
    model, out = wide_qwen3(tmp_path / "tiny"), tmp_path / "out.json"
    arguments = ["--model", str(model), "--tokens", "150", "--chunk", "64", "--json", str(out)]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "150 tokens in chunks of 64" in said
    bf16, int8 = json.loads(out.read_text())["rows"]
    assert (bf16["arithmetic"], int8["arithmetic"]) == ("bf16", "int8")
    assert bf16["tokens"] == int8["tokens"] == 150
    assert 0 < bf16["kl"] < int8["kl"] < 0.1
    assert bf16["reference_perplexity"] == int8["reference_perplexity"]


@NEEDS_NATIVE
def test_one_can_be_named_and_the_text_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TWINFLEET_CACHE", str(tmp_path / "cache"))
    model, text = wide_qwen3(tmp_path / "tiny"), tmp_path / "text.txt"
    text.write_text("a few words, again and again. " * 4)
    arguments = [str(text), "--model", str(model), "--arithmetic", "int8"]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "int8" in said
    assert "bf16" not in said


def test_a_line_of_json_gives_its_texts(tmp_path: Path) -> None:
    lines, plain = tmp_path / "a.jsonl", tmp_path / "b.txt"
    lines.write_text(json.dumps({"id": 7, "turns": ["one", "two"]}) + "\n" + json.dumps(["three"]))
    plain.write_text('{"four"}')
    assert text_of([lines, plain]) == 'one\n\ntwo\n\nthree\n\n{"four"}'
