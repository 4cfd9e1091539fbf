"""Forms of prompts; what each gives over HTTP stands in test_chat and test_completions."""

import pytest

from common.domain.errors import InvalidRequest
from services.gateway.http.prompts import chat_messages, check_ids, completion_prompts


def test_a_list_of_ids_is_one_prompt_and_a_list_of_lists_is_many() -> None:
    assert completion_prompts([1, 2], 9) == [[1, 2]]
    assert completion_prompts([[1, 2], "x"], 9) == [[1, 2], "x"]
    assert completion_prompts("x", 9) == ["x"]


@pytest.mark.parametrize("token", [-1, 9, 10, 2**31])
def test_ids_outside_the_vocabulary(token: int) -> None:
    check_ids([0, 8], 9, "prompt")
    with pytest.raises(InvalidRequest, match="token id") as caught:
        check_ids([0, token], 9, "stop_token_ids")
    assert caught.value.param == "stop_token_ids"


def test_what_a_template_may_need_passes_through() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history: list[dict[str, object]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "7", "tool_call_id": "1", "name": "f"},
    ]
    assert chat_messages(history) == history


def test_the_clients_messages_are_not_changed() -> None:
    message: dict[str, object] = {"role": "developer", "content": None}
    assert chat_messages([message]) == [{"role": "system", "content": ""}]
    assert message == {"role": "developer", "content": None}
