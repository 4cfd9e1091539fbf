import io
import json

from rich.console import Console

from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.pairs import Comparison
from common.engine.bench.peers.peers_report import as_json, peers_table

RATE, WARM, GAP = Case("streams", 4, output=8), Case("warm", 64), Case("gap", 100)
FOUND = [
    Comparison("llama", RATE, (300.0,), (150.0,)),
    Comparison("vllm", RATE, (310.0,), (100.0,)),
    Comparison("llama", WARM),
]


def lines() -> list[str]:
    file = io.StringIO()
    table = peers_table([RATE, WARM, GAP], FOUND, {"llama": "v1", "vllm": "v2", "openvino": None})
    Console(file=file, width=120).print(table)
    return file.getvalue().splitlines()


def test_the_last_column_is_against_the_best_peer() -> None:
    (line,) = [line for line in lines() if "4 streams, tokens/s" in line]
    assert line.split()[3:] == ["300.0", "150.0", "2.00x", "100.0", "3.10x", "-", "2.00x"]


def test_what_nobody_measured_says_so() -> None:
    rows = [line.split()[0] for line in lines() if line.rstrip().endswith("not measured")]
    assert rows == ["warm", "longest", "openvino:"]


def test_every_peer_says_what_it_is() -> None:
    assert {"llama: v1", "vllm: v2"} < {line.strip() for line in lines()}


def test_it_is_json_with_its_ratio() -> None:
    told = json.loads(json.dumps(as_json(FOUND[0])))
    assert (told["ratio"], told["name"]) == (2.0, "4 streams, tokens/s")
    assert told["case"]["kind"] == "streams"
    assert told["ours"] == [300.0]
