"""Small workloads of every kind, and small files in the formats that they read."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from loadtest.session import Session
from loadtest.workload import Workload
from loadtest.workloads import WORKLOADS
from loadtest.writer import WordWriter

TRACE = [
    {"timestamp": 500, "input_length": 1100, "output_length": 20, "hash_ids": [7, 8, 9]},
    {"timestamp": 500, "input_length": 1024, "output_length": 33, "hash_ids": [7, 8]},
    {"timestamp": 2750, "input_length": 600, "output_length": 1, "hash_ids": [7, 10]},
    {"timestamp": 3000, "input_length": 30, "output_length": 500, "hash_ids": [11]},
]
AZURE_LINES = [
    "TIMESTAMP,ContextTokens,GeneratedTokens",
    "2023-11-16 18:17:03.9799600,480,10",
    "2023-11-16 18:17:04.0319604,31,8",
    "2023-11-16 18:17:05.2319600,320,64",
]


def mooncake_file(folder: Path, rows: Sequence[object] = TRACE) -> str:
    return written(folder / "trace.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def azure_file(folder: Path, lines: Sequence[str] = AZURE_LINES) -> str:
    return written(folder / "trace.csv", "\r\n".join(lines))


def prompts_file(folder: Path) -> str:
    rows = [{"turns": [f"first {n}", f"second {n}"]} for n in range(12)]
    return written(folder / "question.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def written(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    return str(file)


def made(kind: str, **parameters: object) -> Workload:
    return WORKLOADS[kind].model_validate(parameters)


def taken(workload: Workload, count: int, seed: int = 0) -> list[Session]:
    return list(islice(workload.sessions(seed, WordWriter()), count))


def texts(sessions: Sequence[Session]) -> Iterator[str]:
    """What the users say, message by message."""
    for session in sessions:
        for turn in session.turns:
            yield from (one.content for one in turn.messages if one.role == "user")


CHAT = {"kind": "multi_turn", "turns": 4, "prompt_tokens": 8, "output_tokens": 8, "think_s": 2}

EXAMPLES: dict[str, Callable[[Path], Workload]] = {
    "agent": lambda folder: made("agent", turns=3, context_tokens=50),
    "azure": lambda folder: made("azure", path=azure_file(folder)),
    "cancelling": lambda folder: made("cancelling", of=CHAT, share=0.5, after_tokens=3),
    "documents": lambda folder: made("documents", documents=3, document_tokens=20),
    "mooncake": lambda folder: made("mooncake", path=mooncake_file(folder), divisor=16),
    "multi_turn": lambda folder: made("multi_turn", system_tokens=9, think_s=2),
    "prompts": lambda folder: made("prompts", path=prompts_file(folder)),
    "shared_prefix": lambda folder: made("shared_prefix", groups=4, prefix_tokens=30, zipf=1),
    "slow_readers": lambda folder: made("slow_readers", of=CHAT, share=0.5, bytes_s=64),
    "synthetic": lambda folder: made(
        "synthetic", prompt_tokens={"kind": "uniform", "low": 4, "high": 40}, output_tokens=8
    ),
}
"""One of each kind; its files are made in the folder."""
