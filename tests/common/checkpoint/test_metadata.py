import pytest

from common.checkpoint.errors import CheckpointError
from common.checkpoint.metadata import Metadata

META = Metadata({"i": 3, "f": 0.5, "b": True, "t": "x", "l": [1, 2], "m": [1, "x"], "n": None})


def test_values_come_back_typed() -> None:
    assert META.integer("i") == 3
    assert META.number("i") == 3.0
    assert META.number("f") == 0.5
    assert META.flag("b", default=False)
    assert META.text("t") == "x"
    assert META.integers("l") == [1, 2]
    assert META.integers("i") == [3]
    assert META.optional_integer("n") is None
    assert META.optional_text("t") == "x"
    assert Metadata({"s": {"k": 1}}).section("s").integer("k") == 1


def test_null_and_missing_are_the_same() -> None:
    for key in ("n", "absent"):
        assert not META.has(key)
        assert META.integer(key, 7) == 7
        assert META.flag(key, default=False) is False
        with pytest.raises(CheckpointError, match=f"'{key}' is missing"):
            META.integer(key)


@pytest.mark.parametrize(
    ("method", "key"),
    [
        ("integer", "b"),
        ("integer", "f"),
        ("number", "t"),
        ("number", "b"),
        ("text", "i"),
        ("integers", "t"),
        ("integers", "m"),
        ("texts", "l"),
        ("section", "l"),
    ],
)
def test_a_value_of_another_type_is_named(method: str, key: str) -> None:
    with pytest.raises(CheckpointError, match=f"key '{key}' should be"):
        getattr(META, method)(key)
