from common.wire.messages import TAGS
from docs.generated import filled
from docs.wire_page import PAGE, WAYS, parts, spelled


def test_the_page_is_what_the_classes_say() -> None:
    text = PAGE.read_text()
    assert text == filled(text, parts()), "run: make docs"


def test_every_message_has_a_way_and_none_is_left_over() -> None:
    assert WAYS.keys() == set(TAGS.values())


def test_types_are_spelled_so_that_a_table_can_hold_them() -> None:
    assert spelled(tuple[int, ...] | None) == "tuple[int, ...] or None"
