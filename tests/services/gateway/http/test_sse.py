"""Framing: one line of JSON, two line feeds, whatever the text holds."""

import json

import pytest

from services.gateway.http.sse import frame


@pytest.mark.parametrize("text", ["plain", "a\nb\r\n\r\nc", "data: [DONE]\n\n", "é한𝄞\u2028\x00"])
def test_a_frame_cannot_be_broken_from_inside(text: str) -> None:
    raw = frame({"t": text}).decode()
    assert raw.startswith("data: {")
    assert raw.endswith("}\n\n")
    assert "\n" not in raw[:-2]
    assert "\r" not in raw
    assert json.loads(raw.removeprefix("data: ")) == {"t": text}


def test_a_number_that_json_has_not_is_an_error() -> None:
    with pytest.raises(ValueError, match="JSON"):
        frame({"x": float("inf")})
