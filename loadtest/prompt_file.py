"""Files of prompts, in the formats of public sets: each file becomes conversations of a user.

A conversation is what the user says, turn by turn; the answers come from the server at run time.
A new format is one reader and one line of the table.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from loadtest.data_file import Source, bad_row, json_rows, lines_of
from loadtest.errors import LoadTestError

Conversation = tuple[str, ...]
FormatName = Literal["mt_bench", "humaneval", "gsm8k", "mgsm", "sharegpt", "lines"]

MT_BENCH = Source(
    "MT-Bench", "lm-sys/FastChat", "fastchat/llm_judge/data/mt_bench/question.jsonl", "Apache-2.0"
)
HUMANEVAL = Source("HumanEval", "openai/human-eval", "data/HumanEval.jsonl.gz", "MIT")
GSM8K = Source(
    "GSM8K", "openai/grade-school-math", "grade_school_math/data/{train,test}.jsonl", "MIT"
)
MGSM = Source("MGSM", "google-research/url-nlp", "mgsm/mgsm_*.tsv", "CC BY 4.0")
SHAREGPT = Source(
    "Conversations in ShareGPT's format", "lm-sys/FastChat", "data/dummy_conversation.json",
    "Apache-2.0",
)  # fmt: skip


class _MtBench(BaseModel):
    turns: tuple[str, ...] = Field(min_length=1)


class _HumanEval(BaseModel):
    prompt: str = Field(min_length=1)


class _Gsm8k(BaseModel):
    question: str = Field(min_length=1)


class _Said(BaseModel):
    speaker: str = Field(alias="from")
    value: str


class _ShareGpt(BaseModel):
    conversations: tuple[_Said, ...]

    @property
    def of_the_user(self) -> Conversation:
        users = ("human", "user")
        return tuple(one.value for one in self.conversations if one.speaker in users and one.value)


def _mt_bench(path: str) -> Iterator[Conversation]:
    for _, row in json_rows(path, _MtBench, MT_BENCH):
        yield row.turns


def _humaneval(path: str) -> Iterator[Conversation]:
    for _, row in json_rows(path, _HumanEval, HUMANEVAL):
        yield (row.prompt,)


def _gsm8k(path: str) -> Iterator[Conversation]:
    for _, row in json_rows(path, _Gsm8k, GSM8K):
        yield (row.question,)


def _mgsm(path: str) -> Iterator[Conversation]:
    for number, line in lines_of(path, MGSM):
        question, tab, _answer = line.partition("\t")
        if not tab or not question.strip():
            raise bad_row(path, number, "is not a question, a tab and an answer")
        yield (question,)


def _sharegpt(path: str) -> Iterator[Conversation]:
    """One whose user says nothing is left out: there are such."""
    text = "\n".join(line for _, line in lines_of(path, SHAREGPT))
    try:
        rows = TypeAdapter(list[_ShareGpt]).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise LoadTestError(f"{path}: {key or 'JSON'}: {first['msg']}") from None
    yield from (row.of_the_user for row in rows if row.of_the_user)


def _lines(path: str) -> Iterator[Conversation]:
    for _, line in lines_of(path):
        yield (line,)


@dataclass(frozen=True, slots=True)
class Format:
    what: str
    read: Callable[[str], Iterator[Conversation]]
    source: Source | None = None


FORMATS: Mapping[FormatName, Format] = MappingProxyType(
    {
        "mt_bench": Format("JSON lines with `turns`", _mt_bench, MT_BENCH),
        "humaneval": Format("JSON lines with `prompt`", _humaneval, HUMANEVAL),
        "gsm8k": Format("JSON lines with `question`", _gsm8k, GSM8K),
        "mgsm": Format("lines of a question, a tab and an answer", _mgsm, MGSM),
        "sharegpt": Format(
            "a JSON list of `conversations` of `from` and `value`", _sharegpt, SHAREGPT
        ),
        "lines": Format("a prompt a line", _lines),
    }
)


_BY_KEY: Mapping[str, FormatName] = MappingProxyType(
    {"turns": "mt_bench", "prompt": "humaneval", "question": "gsm8k"}
)


def read_conversations(path: str, form: FormatName) -> list[Conversation]:
    """All of a file. Raises LoadTestError, also of a file without any."""
    found = list(FORMATS[form].read(path))
    if not found:
        raise LoadTestError(f"{path}: has no prompts in the format {form}")
    return found


def format_of(path: str) -> FormatName:
    """By the end of the name, then by what the first line is. Raises LoadTestError."""
    name = path.removesuffix(".gz")
    if name.endswith(".tsv"):
        return "mgsm"
    sources = [form.source for form in FORMATS.values() if form.source]
    _, first = next(lines_of(path, *sources), (0, ""))
    if name.endswith(".json") or first.replace(" ", "").startswith("[{"):
        return "sharegpt"
    keys = _keys(first)
    known = [form for key, form in _BY_KEY.items() if key in keys]
    if keys and not known:
        raise LoadTestError(f"{path}: is JSON without {' or '.join(_BY_KEY)}: give its format")
    return known[0] if known else "lines"


def _keys(line: str) -> set[str]:
    try:
        found = json.loads(line)
    except ValueError:
        return set()
    return set(found) if isinstance(found, dict) else set()
