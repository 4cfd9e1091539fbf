"""The stations that docs/request-path.md names are there, and the whole path stays short."""

import ast
import re
from pathlib import Path

import pytest

from docs.generated import ROOT

PAGE = (ROOT / "docs" / "request-path.md").read_text()
STATIONS = sorted(set(re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", PAGE, re.M)))
MENTIONED = sorted(set(re.findall(r"`([\w.]+)` in\s+`([\w/]+\.py)`", PAGE)))
MOST_LINES = 700


def length(path: Path, name: str) -> int | None:
    """Lines of a function or class `Class.method`; None: it is not there."""
    node: ast.AST = ast.parse(path.read_text())
    for part in name.split("."):
        found = [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and child.name == part
        ]
        if not found:
            return None
        (node,) = found
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_there_are_stations() -> None:
    assert len(STATIONS) > 30
    assert len(MENTIONED) > 5


@pytest.mark.parametrize(("file", "function"), STATIONS)
def test_a_station_exists(file: str, function: str) -> None:
    assert length(ROOT / file, function), "docs/request-path.md names what is not there"


@pytest.mark.parametrize(("function", "file"), MENTIONED)
def test_what_the_text_mentions_exists(function: str, file: str) -> None:
    assert length(ROOT / file, function), "docs/request-path.md names what is not there"


def test_the_functions_on_the_path_are_short_together() -> None:
    total = sum(length(ROOT / file, function) or 0 for file, function in STATIONS)
    assert total <= MOST_LINES
