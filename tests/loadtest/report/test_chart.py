"""What all charts share."""

import pytest

from loadtest.report.chart import (
    DASHES,
    RAMP,
    SERIES,
    Line,
    across_x,
    across_y,
    colors,
    dashes,
    drawn,
    significant,
)


def test_sides_get_hues_and_dashes_by_which_paper_tells_them_apart() -> None:
    names = ["new", "old"]
    color, dash = colors(names, ordered=False), dashes(names, ordered=False)
    assert color["scale"] == {"domain": names, "range": list(SERIES[:2])}
    assert dash["scale"] == {"domain": names, "range": list(DASHES[:2])}
    assert color["legend"] == dash["legend"], "or there would be two"


def test_steps_of_a_scale_get_a_ramp_from_end_to_end() -> None:
    names = ["1", "2", "3"]
    chosen = colors(names, ordered=True)["scale"]["range"]
    assert (chosen[0], chosen[-1]) == (RAMP[0], RAMP[-1])
    assert len(set(chosen)) == 3
    assert dashes(names, ordered=True)["scale"]["range"] == [DASHES[0]] * 3


def test_one_name_needs_no_legend() -> None:
    assert colors(["only"], ordered=True)["legend"] is None
    assert colors(["only"], ordered=False)["legend"] is None


def test_more_sides_than_hues_begin_again() -> None:
    names = [str(number) for number in range(len(SERIES) + 1)]
    assert colors(names, ordered=False)["scale"]["range"][-1] == SERIES[0]


def test_a_line_is_a_rule_with_its_label() -> None:
    rule, label = across_x([Line(500.04, "target")])
    assert rule["mark"]["type"] == "rule"
    assert rule["data"]["values"] == [{"at": 500.0, "label": "target"}]
    assert rule["encoding"]["x"]["field"] == "at"
    assert label["encoding"]["text"]["field"] == "label"
    assert across_y([Line(1, "t")])[0]["encoding"]["y"]["field"] == "at"


def test_no_line_is_no_layer() -> None:
    assert across_x([]) == []


def test_a_chart_is_as_wide_as_its_place_and_in_the_colours_of_the_page() -> None:
    spec = drawn([])
    assert spec["width"] == "container"
    assert spec["config"]["background"] == "transparent"
    assert spec["config"]["axis"]["labelColor"].startswith("var(--")


@pytest.mark.parametrize(("value", "kept"), [(123456.0, 123500.0), (0.00123456, 0.001235), (0, 0)])
def test_four_digits_are_kept(value: float, kept: float) -> None:
    assert significant(value) == kept
