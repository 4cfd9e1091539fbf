import gzip
import json
from pathlib import Path

import pytest

from loadtest.errors import LoadTestError
from loadtest.prompt_file import FORMATS, FormatName, format_of, read_conversations
from tests.support.workload_examples import written

SHAREGPT = [
    {
        "id": "a",
        "conversations": [
            {"from": "human", "value": "Hello"},
            {"from": "gpt", "value": "Hello, too."},
            {"from": "human", "value": "What\nnow?"},
        ],
    },
    {"id": "b", "conversations": []},
    {"id": "c", "conversations": [{"from": "gpt", "value": "Nobody asked."}]},
    {"id": "d", "conversations": [{"from": "user", "value": "Hm"}, {"from": "user", "value": ""}]},
]
FILES: dict[FormatName, tuple[str, str, list[tuple[str, ...]]]] = {
    "mt_bench": (
        "question.jsonl",
        '{"question_id": 1, "turns": ["One?", "Two?"]}\n{"turns": ["Three?"]}\n',
        [("One?", "Two?"), ("Three?",)],
    ),
    "humaneval": (
        "HumanEval.jsonl",
        '{"task_id": "a/0", "prompt": "def f():\\n", "test": ""}\n',
        [("def f():\n",)],
    ),
    "gsm8k": ("test.jsonl", '{"question": "1 + 1?", "answer": "2"}\n', [("1 + 1?",)]),
    "mgsm": ("mgsm_de.tsv", "Wie viele Äpfel?\t3\nUnd Birnen?\t4\n",
             [("Wie viele Äpfel?",), ("Und Birnen?",)]),
    "sharegpt": ("chats.json", json.dumps(SHAREGPT, indent=1), [("Hello", "What\nnow?"), ("Hm",)]),
    "lines": ("mine.txt", "Tell me.\n\nOr do {not}.\n", [("Tell me.",), ("Or do {not}.",)]),
}  # fmt: skip
every_format = pytest.mark.parametrize("form", FORMATS)


def test_every_format_has_an_example() -> None:
    assert FILES.keys() == FORMATS.keys()


@every_format
def test_what_users_say_is_read_and_nothing_else(form: FormatName, tmp_path: Path) -> None:
    name, text, expected = FILES[form]
    assert read_conversations(written(tmp_path / name, text), form) == expected


@every_format
def test_the_format_is_told_from_name_and_content(form: FormatName, tmp_path: Path) -> None:
    name, text, _ = FILES[form]
    assert format_of(written(tmp_path / name, text)) == form


@every_format
def test_packed_files_are_the_same(form: FormatName, tmp_path: Path) -> None:
    name, text, expected = FILES[form]
    file = tmp_path / f"{name}.gz"
    file.write_bytes(gzip.compress(text.encode()))
    assert format_of(str(file)) == form
    assert read_conversations(str(file), form) == expected


@every_format
def test_a_file_without_prompts_is_an_error(form: FormatName, tmp_path: Path) -> None:
    empty = "[]" if form == "sharegpt" else "\n"
    with pytest.raises(LoadTestError, match=f"empty: has no prompts in the format {form}"):
        read_conversations(written(tmp_path / "empty", empty), form)


@pytest.mark.parametrize(
    ("form", "text", "why"),
    [
        ("mt_bench", '{"turns": []}', "line 1: turns: "),
        ("mt_bench", '{"turns": ["a"]}\n{"prompt": "a"}', "line 2: turns: Field required"),
        ("humaneval", '{"prompt": ""}', "line 1: prompt: "),
        ("gsm8k", "1 + 1?", "line 1: Invalid JSON"),
        ("mgsm", "Question\t3\nQuestion", "line 2: is not a question"),
        ("mgsm", "\t3", "line 1: is not a question"),
        ("sharegpt", '[{"conversations": []}, {"turns": []}]', "1.conversations: Field required"),
        ("sharegpt", "[", "JSON: Invalid JSON"),
        ("sharegpt", "{}", "JSON: Input should be a valid array"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(
    form: FormatName, text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(LoadTestError, match=f"bad: {why}"):
        read_conversations(written(tmp_path / "bad", text), form)


@every_format
def test_a_missing_file_says_where_to_get_one(form: FormatName) -> None:
    source = FORMATS[form].source
    with pytest.raises(LoadTestError) as caught:
        read_conversations("nowhere", form)
    assert (source is None) or f"github.com/{source.repository}" in str(caught.value)
    assert str(caught.value).startswith("nowhere: no such file")


def test_where_the_format_is_not_known_either_all_are_named() -> None:
    with pytest.raises(LoadTestError) as caught:
        format_of("nowhere.jsonl")
    for form in FORMATS.values():
        assert form.source is None or form.source.repository in str(caught.value)


def test_json_of_another_shape_is_not_taken_for_lines(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="give its format"):
        format_of(written(tmp_path / "a.jsonl", '{"text": "Hello"}\n'))
    assert format_of(written(tmp_path / "b.txt", "{ is a brace?\n")) == "lines"
