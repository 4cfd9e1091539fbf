"""One file that shows everything, loads nothing and runs nobody else's script."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import vl_convert

from loadtest.report.page import page, write_report
from loadtest.verdict import verdict
from tests.support.load_records import Server, measurement
from tests.support.load_summaries import (
    HOSTILE,
    Made,
    compared,
    made,
    one,
    searched,
    searches_compared,
    swept,
)

LARGEST_BYTES = 5 << 20


class Parsed(HTMLParser):
    """Elements and their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.said: list[str] = []
        self._in_script = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data
        else:
            self.said.append(data)

    def charts(self) -> list[dict[str, object]]:
        kinds = [attrs.get("type") for tag, attrs in self.elements if tag == "script"]
        pairs = zip(kinds, self.scripts, strict=True)
        return [json.loads(text) for kind, text in pairs if kind == "application/json"]


@pytest.fixture(scope="module")
def parsed_one() -> Parsed:
    return Parsed(page(*one()))


@pytest.mark.parametrize("make", [one, swept, searched, compared, searches_compared])
def test_every_kind_of_result_has_a_page_that_begins_with_the_verdict(
    make: Callable[[], Made],
) -> None:
    summary, runs = make()
    parsed = Parsed(page(summary, runs))
    said = "".join(parsed.said)
    assert verdict(summary)[0] in said
    assert said.index(verdict(summary)[0]) < said.index("Throughput") < said.index("Charts")
    assert len(parsed.charts()) >= 5


def test_nothing_is_loaded(parsed_one: Parsed) -> None:
    for _tag, attrs in parsed_one.elements:
        assert not {"src", "href", "srcset", "action", "background"} & attrs.keys()
    assert "@import" not in page(*one())
    assert not re.search(r"url\(\s*['\"]?https?:", page(*one()))


def test_the_words_of_a_server_stay_words(parsed_one: Parsed) -> None:
    assert HOSTILE in "".join(parsed_one.said)
    assert "img" not in [tag for tag, _attrs in parsed_one.elements]
    assert not any(name.startswith("on") for _tag, attrs in parsed_one.elements for name in attrs)


def test_hostile_words_anywhere_stay_words() -> None:
    summary, runs = one()
    origin = replace(
        summary.origin,
        target=HOSTILE,
        model=HOSTILE,
        command=[HOSTILE],
        scenario={"name": HOSTILE, "description": HOSTILE, "x": HOSTILE},
    )
    run = replace(runs[0], side=HOSTILE, server={HOSTILE: 1.0})
    for record in run.records:
        record.request_id = record.error = record.finish = HOSTILE
        record.load = HOSTILE
        record.server = {HOSTILE: 1}
    parsed = Parsed(page(replace(made([run])[0], origin=origin), [run]))
    assert "img" not in [tag for tag, _attrs in parsed.elements]
    assert (
        len([tag for tag, _attrs in parsed.elements if tag == "script"]) == len(parsed.charts()) + 2
    )


def test_the_policy_lets_only_our_scripts_run(parsed_one: Parsed) -> None:
    policy = next(a["content"] for _t, a in parsed_one.elements if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    allowed = re.findall(r"'sha256-([^']+)'", policy)
    ours = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in parsed_one.scripts[-2:]
    ]
    assert allowed == ours
    assert "'unsafe-inline'" not in policy.split("script-src")[1]


def test_charts_have_names_of_their_own(parsed_one: Parsed) -> None:
    keys = [attrs["data-chart"] for tag, attrs in parsed_one.elements if tag == "figure"]
    assert len(set(keys)) == len(keys) == len(parsed_one.charts())


@pytest.mark.parametrize("make", [one, searched, compared, searches_compared])
def test_vega_can_compile_every_chart(make: Callable[[], Made]) -> None:
    for chart in Parsed(page(*make())).charts():
        # A width is known only where there is a page.
        compiled = vl_convert.vegalite_to_vega(chart | {"width": 400}, show_warnings=False)
        assert compiled["marks"]


@pytest.mark.slow
def test_a_large_run_is_a_small_page() -> None:
    run = measurement(count=20_000, rate=60, server=Server(slots=200, tokens=80, fails=0.02))
    assert sum(len(record.chunks_s) for record in run.records) > 1_900_000
    assert len(page(*made([run])).encode()) < LARGEST_BYTES


def test_it_grows_no_more_with_the_number_of_requests() -> None:
    few, many = (
        len(page(*made([measurement(count=count, rate=20, server=Server(tokens=8))])))
        for count in (400, 4000)
    )
    assert many < few * 1.1


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    write_report(tmp_path / "r.html", *one())
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
