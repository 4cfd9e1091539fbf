"""Text of others made fit to be shown: no control character of it reaches a terminal or a page."""

import re

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, the beginnings of a terminal's commands among them, and those that turn the
direction of text around, or are half of a character."""


def printable(text: str) -> str:
    """In one line."""
    one_line = " ".join(text.split())
    return _UNFIT.sub("\N{REPLACEMENT CHARACTER}", one_line)
