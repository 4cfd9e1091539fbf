"""What counts as content, what as the end, and where the numbers come from."""

import json

import pytest

from loadtest.answer import Answer, error_text
from loadtest.record import Outcome, Record


def record() -> Record:
    return Record("main", 0, 0, scheduled_s=0.0)


def chunk(delta: dict[str, object], finish: str | None = None, **more: object) -> bytes:
    return json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]} | more).encode()


def usage(prompt: int, output: int, cached: int | None = None) -> dict[str, object]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": output} | details}


def taken(*events: tuple[float, bytes]) -> Record:
    seen = record()
    answer = Answer(seen)
    for at_s, data in events:
        answer.take(data, at_s)
    answer.close()
    return seen


def test_the_chunks_of_a_chat_answer() -> None:
    seen = taken(
        (1.0, chunk({"role": "assistant", "content": ""})),
        (1.5, chunk({"content": "Hel"})),
        (2.0, chunk({"content": "lo"})),
        (2.1, chunk({}, "stop")),
        (2.2, json.dumps({"choices": []} | usage(7, 2, 4)).encode()),
        (2.3, b"[DONE]"),
    )
    assert seen.outcome is Outcome.FINISHED
    assert seen.chunks_s == [1.5, 2.0]
    assert (seen.prompt_tokens, seen.output_tokens, seen.cached_tokens) == (7, 2, 4)
    assert seen.finish == "stop"


def test_a_first_chunk_without_text_is_no_token() -> None:
    seen = taken(
        (1.0, chunk({"content": ""})), (9.0, chunk({"content": "late"})), (9.1, chunk({}, "stop"))
    )
    assert seen.chunks_s == [9.0]


@pytest.mark.parametrize(
    "delta",
    [{"content": "a"}, {"reasoning_content": "a"}, {"reasoning": "a"}, {"tool_calls": [{}]}],
)
def test_text_reasoning_and_tool_calls_are_content(delta: dict[str, object]) -> None:
    assert taken((1.0, chunk(delta))).chunks_s == [1.0]


@pytest.mark.parametrize(
    "delta",
    [{}, {"content": None}, {"role": "assistant"}, {"tool_calls": []}, {"reasoning": ""}],
)
def test_nothing_else_is(delta: dict[str, object]) -> None:
    assert taken((1.0, chunk(delta))).chunks_s == []


def test_completions_have_their_text_elsewhere() -> None:
    seen = record()
    answer = Answer(seen)
    answer.take(b'{"choices": [{"text": " yes", "finish_reason": "length"}]}', 1.0)
    answer.close()
    assert (answer.text, seen.chunks_s, seen.outcome) == (" yes", [1.0], Outcome.FINISHED)


def test_the_text_for_the_next_turn_is_without_reasoning() -> None:
    answer = Answer(record())
    answer.take(chunk({"reasoning_content": "hm"}), 1.0)
    answer.take(chunk({"content": "so"}), 2.0)
    assert answer.text == "so"


def test_several_tokens_a_chunk_are_known_where_the_server_counts_as_it_goes() -> None:
    seen = taken(
        (1.0, chunk({"content": "a"}, **usage(3, 1))),
        (2.0, chunk({"content": "bcd"}, **usage(3, 4))),
        (2.0, chunk({}, "length", **usage(3, 4))),
    )
    assert seen.chunk_tokens == [1, 3]
    assert seen.output_tokens == 4


def test_counts_now_and_then_say_nothing_of_single_chunks() -> None:
    seen = taken(
        (1.0, chunk({"content": "a"})), (2.0, chunk({"content": "b"}, "stop", **usage(3, 2)))
    )
    assert seen.chunk_tokens == []
    assert seen.output_tokens == 2


def test_a_stream_that_just_ends_was_cut() -> None:
    seen = taken((1.0, chunk({"content": "a"})))
    assert seen.outcome is Outcome.CUT
    assert "without a finish reason" in seen.error


def test_an_end_mark_after_content_is_an_end() -> None:
    assert taken((1.0, chunk({"content": "a"})), (2.0, b"[DONE]")).outcome is Outcome.FINISHED


def test_an_end_mark_after_nothing_is_none() -> None:
    assert taken((2.0, b"[DONE]")).outcome is Outcome.CUT


def test_an_error_in_the_stream_is_a_failure_even_with_an_end_mark() -> None:
    seen = taken(
        (1.0, chunk({"content": "a"})),
        (2.0, b'{"error": {"message": "the worker is gone", "code": 503}}'),
        (2.0, b"[DONE]"),
    )
    assert (seen.outcome, seen.error) == (Outcome.FAILED, "the worker is gone")


def test_what_the_server_says_of_the_request_is_kept() -> None:
    seen = taken((1.0, chunk({"content": "a"}, "stop", ledger={"queue_ms": 3.0})))
    assert seen.server == {"queue_ms": 3.0}


def test_equal_answers_have_equal_digests() -> None:
    one = taken((1.0, chunk({"content": "ab"}, "stop")))
    two = taken((1.0, chunk({"content": "a"})), (2.0, chunk({"content": "b"}, "stop")))
    other = taken((1.0, chunk({"content": "ba"}, "stop")))
    assert one.text_digest == two.text_digest != other.text_digest


@pytest.mark.parametrize("data", [b"{", b"[]", b"null", b"\xff"])
def test_what_is_no_chunk_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Answer(record()).take(data, 0.0)


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices": null}',
        b'{"choices": [null]}',
        b'{"choices": [{"delta": "x"}]}',
        b'{"choices": {}, "usage": 3}',
        b'{"usage": {"completion_tokens": "7", "prompt_tokens": -1}}',
    ],
)
def test_strange_chunks_say_nothing(data: bytes) -> None:
    seen = taken((1.0, data))
    assert (seen.chunks_s, seen.output_tokens, seen.prompt_tokens) == ([], None, None)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "m", "code": 1}}, "m"),
        ({"error": "Unauthorized"}, "Unauthorized"),
        ({"object": "error", "message": "m"}, "m"),
        ({"detail": "Not Found"}, ""),
        ([], ""),
    ],
)
def test_errors_of_every_server(body: object, text: str) -> None:
    assert error_text(body) == text


def test_half_a_surrogate_pair_is_text_like_any() -> None:
    seen = taken(
        (1.0, b'{"choices": [{"delta": {"content": "\\ud83d"}, "finish_reason": "stop"}]}')
    )
    assert seen.outcome is Outcome.FINISHED
    assert seen.text_digest
