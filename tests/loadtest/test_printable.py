"""Nobody else's text commands our terminal."""

import pytest

from loadtest.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – text, ünïcode 日本", "plain – text, ünïcode 日本"),
        ("two\nlines\tand more\r\n", "two lines and more"),
        ("\x1b[2Jgone", "�[2Jgone"),
        ("\x9b2Jgone", "�2Jgone"),
        ("a\x00b\x07", "a�b�"),
        ("\u202eback", "�back"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert printable(text) == shown
