import io
from typing import Any

from rich.console import Console

from common.engine.bench.report import WIDTH, tables


def run_of(**changes: object) -> dict[str, Any]:
    row = {
        "part": "warm",
        "case": "2048 cached",
        "value": 12.345,
        "unit": "ms",
        "seconds": 2.0,
        "cpu_seconds": 3.0,
        "reached": {"bandwidth": 0.25, "flops": 0.5},
        "details": {"cached_tokens": 2016.0, "unheard": 1.0},
    }
    return {
        "engine": "native",
        "arithmetic": "bf16",
        "level": "amx",
        "threads": 2,
        "read_bytes_s": 24e9,
        "peak_flops_s": 6.7e12,
        "rows": [row],
        **changes,
    }


def text(*runs: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=WIDTH)
    for table in tables({"runs": runs}):
        console.print(table)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_line_says_value_share_of_the_cores_and_of_the_floors() -> None:
    told = text(run_of())
    assert "native bf16, amx, 2 threads: reads 24.0 GB/s, computes 6.70 TFLOP/s" in told
    (line,) = [line for line in told.splitlines() if "2048 cached" in line]
    assert " ".join(line.split()) == "warm 2048 cached 12.35 ms 1.50 25% 50% 2016 tokens cached"


def test_each_thread_count_has_its_table() -> None:
    assert text(run_of(), run_of(threads=1)).count(" GB/s") == 2
