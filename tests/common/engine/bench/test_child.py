import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from common.engine.bench import child
from common.engine.bench.rig import Rig
from common.engine.bench.spec import Spec
from tests.support.bench_rig import TINY, tiny_choice


@pytest.fixture
def told(
    tiny_folder: Path, tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, object], str]:
    monkeypatch.setattr(child, "FULL", TINY)
    monkeypatch.setattr(child, "rig_for", lambda choice, checkpoint, slots: rig)
    monkeypatch.setattr(child, "read_bandwidth", lambda threads: 1e9 * threads)
    monkeypatch.setattr(child, "peak_flops", lambda choice: 1e10)
    monkeypatch.setattr(type(rig.runner.inner), "level", "avx2", raising=False)
    said = io.StringIO()
    spec = Spec(tiny_choice(tiny_folder, tmp_path), ("decode", "warm"), quick=False)
    return child.run(spec, Console(file=said, width=200)), said.getvalue()


def test_what_is_asked_for_is_measured_and_judged_by_the_floors(
    told: tuple[dict[str, object], str], rig: Rig
) -> None:
    result, _ = told
    assert json.loads(json.dumps(result)) == result
    assert isinstance(result["rows"], list)
    assert [row["part"] for row in result["rows"]] == ["decode", "decode", "decode", "warm"]
    row = result["rows"][0]
    assert row["reached"]["bandwidth"] == pytest.approx(
        row["bytes"] / row["seconds"] / 1e9, abs=1e-3
    )
    assert (result["read_bytes_s"], result["peak_flops_s"]) == (1e9, 1e10)
    assert result["weight_bytes"] == rig.needs.weight_bytes
    assert (result["engine"], result["arithmetic"], result["level"]) == ("torch", "fp32", "avx2")


def test_progress_is_told_line_by_line(told: tuple[dict[str, object], str]) -> None:
    lines = told[1].splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("1 threads, decode, batch 1, context 40:")
    assert lines[2].startswith("1 threads, decode, batch 2, context 40, 32 shared:")


def test_a_rig_weighs_the_matrices_of_its_model(rig: Rig) -> None:
    hidden, inner, vocab = 64, 128, rig.runner.vocab
    layers = 2 * (hidden * 16 * 2 * (4 + 2) + 3 * hidden * inner)
    assert rig.needs.weight_bytes == 4 * (layers + hidden * vocab)
    assert rig.needs.token_bytes == 2 * 2 * 2 * 16 * 4
