"""`python -m common.engine.bench.accuracy`: what an arithmetic of the native kernels costs.

Every chunk of a text goes through the fp32 torch runner and through each arithmetic, on its own;
all next-token distributions are compared. The text is that of the files named, or Python's own
reference on language topics, which is there wherever this runs.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any, Protocol, cast

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from common.checkpoint.default_model import model_name
from common.checkpoint.prepared_tokenizer import prepare_tokenizer
from common.engine.bench.backend import BACKENDS, RunnerChoice, load_runner
from common.engine.bench.divergence import Divergence, Float32Array
from common.engine.bench.options import add_engine_options, runner_choice
from common.engine.bench.report import WIDTH
from common.engine.runner import Batch, Runner

ARITHMETICS = tuple(BACKENDS["native"].weight_bytes)


class LogitsRunner(Runner, Protocol):
    def forward(self, batch: Batch) -> Any:
        """[len(batch.rows), vocab], of any type that NumPy takes."""


class Chunked:
    """One runner whose pool holds one chunk."""

    def __init__(self, choice: RunnerChoice, chunk: int) -> None:
        self._runner = cast(LogitsRunner, load_runner(choice))
        layout = self._runner.layout
        self._slots = -(-chunk // layout.block_tokens)
        memory = memoryview(bytearray(self._slots * layout.block_bytes))
        self._runner.bind(memory, self._slots, layout.block_bytes)

    def logits(self, tokens: Sequence[int]) -> Float32Array:
        """What follows each of these, which begin a text."""
        batch = Batch(
            tokens=np.array(tokens, dtype=np.int64),
            positions=np.arange(len(tokens)),
            starts=np.array([0, len(tokens)], dtype=np.int32),
            tables=[np.arange(self._slots, dtype=np.int32)],
            rows=np.arange(len(tokens)),
            draws=(),
        )
        return np.asarray(self._runner.forward(batch), dtype=np.float32)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="common.engine.bench.accuracy", description=__doc__)
    add_engine_options(parser)
    parser.set_defaults(engine="native")
    parser.add_argument("text", nargs="*", type=Path, help="files of text, or of JSON a line")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=32_768, help="of the text")
    parser.add_argument("--chunk", type=int, default=512, help="tokens that see each other")
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    choice = runner_choice(options, options.threads)
    text = text_of(options.text) if options.text else "\n\n".join(topics.values())
    source = prepare_tokenizer(choice.model, choice.cache).tokenizer_json
    ids: list[int] = Tokenizer.from_str(source).encode(text).ids
    wanted = (options.arithmetic,) if options.arithmetic else ARITHMETICS
    rows = compare(choice, wanted, ids[: options.tokens], options.chunk)
    result = {"model": model_name(choice.model), "chunk": options.chunk, "rows": rows}
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    Console(width=WIDTH).print(table(result))
    return 0


def compare(
    choice: RunnerChoice, arithmetics: Sequence[str], ids: Sequence[int], chunk: int
) -> list[dict[str, Any]]:
    """A line for each arithmetic. `choice` says which model and how many threads."""
    reference = Chunked(replace(choice, engine="torch", arithmetic="fp32"), chunk)
    native = {
        name: Chunked(replace(choice, engine="native", arithmetic=name), chunk)
        for name in arithmetics
    }
    sums = {name: Divergence() for name in arithmetics}
    for begin in range(0, len(ids), chunk):
        tokens = ids[begin : begin + chunk]
        expected = reference.logits(tokens)
        for name, runner in native.items():
            sums[name].add(expected, runner.logits(tokens), list(tokens[1:]))
    return [{"arithmetic": name, **sums[name].result()} for name in arithmetics]


def text_of(paths: Sequence[Path]) -> str:
    return "\n\n".join(part for path in paths for part in _parts(path))


def _parts(path: Path) -> Iterator[str]:
    if path.suffix != ".jsonl":
        yield path.read_text(errors="replace")
        return
    for line in path.read_text().splitlines():
        yield from _strings(json.loads(line))


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for part in value:
                yield from _strings(part)
        case dict():
            yield from _strings(list(value.values()))
        case _:
            return


def table(result: dict[str, Any]) -> Table:
    rows = result["rows"]
    made = Table(
        title=f"{result['model']} against fp32: {rows[0]['tokens']} tokens in chunks of "
        f"{result['chunk']}, perplexity of fp32 {rows[0]['reference_perplexity']:.4f}",
        box=box.SIMPLE,
    )
    for heading in ("arithmetic", "KL, nats", "same best token", "perplexity", "change"):
        made.add_column(heading, justify="left" if heading == "arithmetic" else "right")
    for row in rows:
        made.add_row(
            row["arithmetic"],
            f"{row['kl']:.2e}",
            f"{row['same_best']:.2%}",
            f"{row['perplexity']:.4f}",
            f"{row['perplexity_change']:+.3%}",
        )
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
