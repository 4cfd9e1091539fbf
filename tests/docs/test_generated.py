import pytest

from docs.generated import filled

PAGE = "before\n<!-- generated: one -->\nold\n<!-- end: one -->\nafter\n"


def test_only_the_part_between_the_markers_changes() -> None:
    new = filled(PAGE, {"one": "new"})
    assert new == "before\n<!-- generated: one -->\n\nnew\n\n<!-- end: one -->\nafter\n"
    assert filled(new, {"one": "new"}) == new


def test_a_marker_without_a_part_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled(PAGE, {})


def test_a_part_without_a_marker_is_an_error() -> None:
    with pytest.raises(ValueError, match="two"):
        filled(PAGE, {"one": "", "two": ""})
