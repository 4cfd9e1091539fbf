"""Bodies to fields; bounds of each field, over HTTP, stand in test_validate."""

import pytest

from common.domain.errors import InvalidRequest
from services.gateway.http.schema import ChatBody, CompletionBody, DetokenizeBody, parse


def test_null_is_as_good_as_missing() -> None:
    for kind in (ChatBody, CompletionBody):
        nulls: dict[str, object] = dict.fromkeys(kind.model_fields)
        assert parse(kind, nulls) == parse(kind, {})


def test_fields_that_nobody_knows_are_ignored() -> None:
    assert parse(ChatBody, {"novelty": {"a": [1]}}) == parse(ChatBody, {})


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"n": "1"}, "n"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"stop": 1}, "stop"),
        ({"stop_token_ids": [1, -1]}, "stop_token_ids[1]"),
        ({"logit_bias": {"1": "x"}}, "logit_bias"),
        ({"stream_options": {"include_usage": 3}}, "stream_options.include_usage"),
        ({"stream_options": 3}, "stream_options"),
        ({"messages": [1]}, "messages[0]"),
    ],
)
def test_the_first_wrong_field_is_named(value: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(ChatBody, value)
    assert caught.value.param == param
    assert str(caught.value).startswith(param)


def test_booleans_are_no_token_ids() -> None:
    with pytest.raises(InvalidRequest):
        parse(DetokenizeBody, {"tokens": [True]})
