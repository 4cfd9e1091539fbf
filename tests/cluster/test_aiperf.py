"""The same load measured by NVIDIA's aiperf and by ours gives the same figures.

aiperf wants an environment of its own, so this runs only where TWINFLEET_AIPERF names its
executable (`python -m venv aiperf && aiperf/bin/pip install aiperf`). The server is a mock whose
steps take their time asleep: neither tool can disturb it by using a core.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from loadtest.results import read_results
from loadtest.writer import WordWriter
from tests.support.live import ROOT, live_cluster
from tests.support.tiny_tokenizer import CHAT_TEMPLATE, byte_level_tokenizer

AIPERF = os.environ.get("TWINFLEET_AIPERF", "")

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not AIPERF, reason="TWINFLEET_AIPERF names no aiperf"),
]

PAIRS = 3
REQUESTS, RATE, PROMPT_WORDS, OUTPUT_TOKENS = 60, 4, 16, 48
AGREEMENT = 0.05
TOPOLOGY = """
name = "paced"
engine = "mock"
[decode]
count = 1
threads = 1
settings = { kv_pool_bytes = 16777216, mock_prefill_us = 500, mock_decode_us = 20000 }
[kvstore]
count = 0
"""
SCENARIO = f"""
name = "constant"
description = "What aiperf is asked for, too."
[[loads]]
sessions = {REQUESTS}
[loads.workload]
kind = "prompts"
format = "lines"
path = "PATH"
shuffle = false
output_tokens = {OUTPUT_TOKENS}
[loads.arrivals]
kind = "constant"
rate = {RATE}.0
"""

Figures = Mapping[str, float]


def prompts(seed: int) -> list[str]:
    """New ones for every run, so that nobody finds another's in the cache."""
    random = Random(seed)
    return [WordWriter().write(PROMPT_WORDS, random).strip() for _ in range(REQUESTS)]


def ours(url: str, folder: Path, seed: int) -> Figures:
    folder.mkdir()
    (folder / "prompts.txt").write_text("\n".join(prompts(seed)))
    scenario = folder / "constant.toml"
    scenario.write_text(SCENARIO.replace("PATH", str(folder / "prompts.txt")))
    subprocess.run(
        [sys.executable, "-m", "loadtest", "run", "--scenario", str(scenario), "--base-url", url,
         "--out", str(folder / "out")],
        cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _summary, (run,) = read_results(folder / "out")
    measures = run.loads()["main"]
    found = measures.distributions
    assert measures.output_tokens_s is not None
    return {
        "TTFT": found["ttft_ms"].p50,
        "TPOT": found["tpot_ms"].p50,
        "throughput": measures.output_tokens_s,
    }


def write_tokenizer(folder: Path) -> None:
    """aiperf cannot do without one, though the server's counts are used."""
    folder.mkdir()
    byte_level_tokenizer(0).save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))


def theirs(url: str, folder: Path, seed: int) -> Figures:
    folder.mkdir()
    lines = [json.dumps({"text": text}) for text in prompts(seed)]
    (folder / "prompts.jsonl").write_text("\n".join(lines))
    write_tokenizer(folder / "tokenizer")
    extra = ("ignore_eos:true", f"max_tokens:{OUTPUT_TOKENS}", "temperature:0")
    subprocess.run(
        [AIPERF, "profile", "-m", "mock", "--url", url, "--endpoint-type", "chat", "--streaming",
         "--request-rate", str(RATE), "--arrival-pattern", "constant",
         "--request-count", str(REQUESTS), "--input-file", str(folder / "prompts.jsonl"),
         "--custom-dataset-type", "single_turn", "--use-server-token-count",
         "--tokenizer", str(folder / "tokenizer"), "--ui", "none",
         "--artifact-dir", str(folder / "out"),
         *(word for field in extra for word in ("--extra-inputs", field))],
        cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    found = json.loads((folder / "out" / "profile_export_aiperf.json").read_text())
    return {
        "TTFT": found["time_to_first_token"]["p50"],
        "TPOT": found["inter_token_latency"]["p50"],
        "throughput": found["output_token_throughput"]["avg"],
    }


def test_both_measure_the_same(tmp_path: Path) -> None:
    topology = tmp_path / "paced.toml"
    topology.write_text(TOPOLOGY)
    ratios: dict[str, list[float]] = {}
    with live_cluster(tmp_path / "run", str(topology)) as live:
        for pair in range(PAIRS):
            mine = ours(live.url, tmp_path / f"ours{pair}", 2 * pair)
            other = theirs(live.url, tmp_path / f"theirs{pair}", 2 * pair + 1)
            for name, value in mine.items():
                ratios.setdefault(name, []).append(value / other[name])
    for name, found in ratios.items():
        assert statistics.median(found) == pytest.approx(1, abs=AGREEMENT), (name, found)
