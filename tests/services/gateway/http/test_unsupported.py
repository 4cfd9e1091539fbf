"""What we cannot do is refused by name; what asks for nothing is tolerated."""

from typing import Any

import pytest

from common.domain.errors import InvalidRequest
from services.gateway.http.unsupported import refuse_unsupported, unknown_fields

HARMLESS: dict[str, list[Any]] = {
    "tools": [None, []],
    "tool_choice": [None, "none", "auto"],
    "functions": [None, []],
    "function_call": [None, "none", "auto"],
    "response_format": [None, {"type": "text"}],
    "guided_json": [None],
    "structured_outputs": [None],
    "suffix": [None, ""],
    "modalities": [None, ["text"]],
    "bad_words": [None, []],
    "use_beam_search": [None, False],
    "best_of": [None, 1],
    "length_penalty": [None, 1.0],
    "metadata": [None, {"a": "b"}],
    "user": ["me"],
    "store": [True],
    "parallel_tool_calls": [True],
    "something_unknown": [{"a": [1]}],
}
REFUSED: dict[str, list[Any]] = {
    "tools": [[{"type": "function"}], "x"],
    "tool_choice": ["required", {"type": "function"}],
    "functions": [[{"name": "f"}]],
    "function_call": [{"name": "f"}],
    "response_format": [{"type": "json_object"}, {"type": "json_schema"}, "json"],
    "guided_json": [{"type": "object"}],
    "guided_regex": ["a+"],
    "guided_anything": [1],
    "structured_outputs": [{"json": {}}],
    "best_of": [2, "1x", 0],
    "suffix": ["x"],
    "prompt_embeds": ["AAAA"],
    "modalities": [["text", "audio"]],
    "audio": [{"voice": "x"}],
    "prompt_logprobs": [0, 1, True],
    "bad_words": [["x"]],
    "allowed_token_ids": [[1]],
    "use_beam_search": [True],
    "length_penalty": [0.5],
    "thinking_token_budget": [0, 100],
    "truncate_prompt_tokens": [5],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in HARMLESS.items() for v in vs])
def test_tolerated(name: str, value: object) -> None:
    refuse_unsupported({name: value})


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_refused_with_its_name(name: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse_unsupported({"model": "m", name: value})
    assert caught.value.param == name


def test_best_of_may_equal_n() -> None:
    refuse_unsupported({"best_of": 3, "n": 3})
    with pytest.raises(InvalidRequest):
        refuse_unsupported({"best_of": 3, "n": 2})


def test_unknown_fields_are_named_and_cut_short() -> None:
    body = {"model": "m", "tools": None, "best_of": 1, "x" * 99: 1, "other": 2}
    assert unknown_fields(body, ["model"]) == ["other", "x" * 40]
