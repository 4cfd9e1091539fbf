"""The tables of a finished benchmark, from its JSON."""

from typing import Any

from rich import box
from rich.table import Table

WIDTH = 120
"""Columns that a table needs, terminal or not."""
_NOTES = {
    "tokens_s": "{:.0f} tokens/s",
    "decode_tokens_s": "{:.0f} tokens/s after the first",
    "outside_forward_ms_a_step": "{:.2f} ms a step outside the runner",
    "cold_ms": "{:.0f} ms cold",
    "cached_tokens": "{:.0f} tokens cached",
    "idle_gap_ms": "{:.1f} ms undisturbed",
    "long_first_token_ms": "{:.0f} ms to its first token",
}
"""Which details a table shows, and how."""


def tables(result: dict[str, Any]) -> list[Table]:
    return [_table(run) for run in result["runs"]]


def _table(run: dict[str, Any]) -> Table:
    level = f", {run['level']}" if run["level"] else ""
    table = Table(
        title=(
            f"{run['engine']} {run['arithmetic']}{level}, {run['threads']} threads: reads "
            f"{run['read_bytes_s'] / 1e9:.1f} GB/s, computes "
            f"{run['peak_flops_s'] / 1e12:.2f} TFLOP/s"
        ),
        box=box.SIMPLE,
    )
    for heading in ("part", "case"):
        table.add_column(heading, no_wrap=True)
    for heading in ("value", "CPU s a s", "bandwidth", "FLOPs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for row in run["rows"]:
        table.add_row(*_cells(row))
    return table


def _cells(row: dict[str, Any]) -> list[str]:
    reached = row["reached"]
    notes = [text.format(row["details"][k]) for k, text in _NOTES.items() if k in row["details"]]
    return [
        row["part"],
        row["case"],
        f"{row['value']:.{0 if row['unit'] == 'tokens/s' else 2}f} {row['unit']}",
        f"{row['cpu_seconds'] / row['seconds']:.2f}",
        f"{reached['bandwidth']:.0%}",
        f"{reached['flops']:.0%}",
        ", ".join(notes),
    ]
