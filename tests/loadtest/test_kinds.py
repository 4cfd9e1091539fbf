from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from loadtest.kinds import changed, of_kind


class Shape(BaseModel):
    kind: str


class Circle(Shape):
    kind: Literal["circle"] = "circle"
    radius: int


class Square(Shape):
    kind: Literal["square"] = "square"
    side: int


SHAPES = {"circle": Circle, "square": Square}
READ = TypeAdapter[Shape](Annotated[Shape, of_kind(SHAPES)])


def test_the_kind_says_which_class_reads_the_rest() -> None:
    assert READ.validate_python({"kind": "circle", "radius": 2}) == Circle(radius=2)
    assert READ.validate_python({"kind": "square", "side": 2}) == Square(side=2)


def test_an_instance_stays_what_it_is() -> None:
    circle = Circle(radius=1)
    assert READ.validate_python(circle) is circle


@pytest.mark.parametrize("value", [{}, {"kind": "line"}, {"kind": 3}, {"kind": ["circle"]}])
def test_an_unknown_kind_is_answered_with_those_there_are(value: object) -> None:
    with pytest.raises(ValidationError, match="there are circle, square"):
        READ.validate_python(value)


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValidationError):
        READ.validate_python("circle")


def test_an_error_inside_names_its_place() -> None:
    with pytest.raises(ValidationError) as caught:
        READ.validate_python({"kind": "circle", "radius": "wide"})
    assert caught.value.errors()[0]["loc"] == ("radius",)


def test_a_change_without_a_kind_changes_parts_and_one_with_a_kind_replaces() -> None:
    before = {"of": {"kind": "circle", "radius": 1, "at": {"x": 1, "y": 2}}, "share": 1}
    parts = changed(before, {"of": {"at": {"y": 3}}})
    assert parts == {"of": {"kind": "circle", "radius": 1, "at": {"x": 1, "y": 3}}, "share": 1}
    whole = changed(before, {"of": {"kind": "square", "side": 4}, "more": {"a": 1}})
    assert whole == {"of": {"kind": "square", "side": 4}, "share": 1, "more": {"a": 1}}
    assert before["of"] == {"kind": "circle", "radius": 1, "at": {"x": 1, "y": 2}}
