"""Links, `make` targets and paths in the documentation lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generated import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
TOPS = ("common", "services", "deploy", "tests", "docs", "loadtest", ".ci")
_CODE = re.compile(r"```.*?```", re.S)
_PLACEHOLDER = re.compile("NAME|NNNN|/x/")


def by_place(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=by_place)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """(file, anchor) of every relative link."""
    prose = _CODE.sub("", page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if not re.match(r"[a-z]+:", target):
            file, _, anchor = target.partition("#")
            yield (page.parent / file if file else page), anchor


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_the_pages_are_there() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/architecture.md"} <= set(map(by_place, PAGES))


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        assert target.exists(), f"{by_place(page)}: no {target}"
        assert not anchor or anchor in anchors(target), f"{by_place(page)}: no #{anchor}"


@every_page
def test_the_make_targets_are_there(page: Path) -> None:
    text = page.read_text()
    in_code = "\n".join([*_CODE.findall(text), *re.findall(r"`([^`\n]+)`", text)])
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", in_code))
    assert named <= TARGETS, f"{by_place(page)}: make {named - TARGETS}"


@every_page
def test_the_paths_in_backticks_are_there(page: Path) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", _CODE.sub("", page.read_text()))
    ours = [path for path in named if path.split("/")[0] in TOPS and not _PLACEHOLDER.search(path)]
    missing = [path for path in ours if not (ROOT / path).exists()]
    assert not missing, f"{by_place(page)}: {missing}"


@pytest.mark.parametrize("adr", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=by_place)
def test_a_decision_says_why_and_when_to_look_again(adr: Path) -> None:
    headings = re.findall(r"^## (.+)$", adr.read_text(), re.M)
    assert headings == ["Context", "Decision", "Alternatives", "Evidence", "Revisit when"]


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
