"""Events come out whole, wherever the bytes were cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.sse import EventStream


def events(*received: bytes) -> list[bytes]:
    stream = EventStream()
    return [data for part in received for data in stream.feed(part)]


def test_an_event_is_its_data() -> None:
    assert events(b'data: {"a": 1}\n\ndata: [DONE]\n\n') == [b'{"a": 1}', b"[DONE]"]


def test_an_event_waits_for_its_end() -> None:
    stream = EventStream()
    assert stream.feed(b"data: one\n") == []
    assert stream.feed(b"\nda") == [b"one"]
    assert stream.feed(b"ta: two\n\n") == [b"two"]


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b": keep-alive\n\n", []),
        (b"event: x\ndata: one\n\n", [b"one"]),
        (b"data:one\n\n", [b"one"]),
        (b"data:  one\n\n", [b" one"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"id: 7\nretry: 10\n\n", []),
        (b": hello\ndata: one\n\n", [b"one"]),
        (b"\n\n\n\n", []),
        (b"data: one\r\n\r\ndata: two\r\n\r\n", [b"one", b"two"]),
        (b"data: one\r\rdata: two\n\n", [b"one", b"two"]),
    ],
)
def test_what_is_not_data_is_left_out(raw: bytes, data: list[bytes]) -> None:
    assert events(raw) == data


@given(
    texts=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1), max_size=5
    ),
    end=st.sampled_from([b"\n", b"\r\n"]),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_no_cut_changes_anything(texts: list[str], end: bytes, cuts: list[int]) -> None:
    raw = b"".join(b"data: " + text.encode() + end + end for text in texts)
    bounds = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    parts = [raw[start:stop] for start, stop in pairwise(bounds)]
    assert events(*parts) == [text.encode() for text in texts]
