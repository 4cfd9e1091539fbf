"""Scenarios by name, and what a command line changes in them.

Changes are made to the file's table before it is checked, so that whatever they break is an error
that names the key.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from loadtest.errors import LoadTestError
from loadtest.scenario import Scenario, parse_table, scenario_of

FOLDER = Path(__file__).parent / "scenarios"

Table = dict[str, object]


def scenario_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_scenario(name: str, changes: Sequence[str] = ()) -> Scenario:
    """`name`: of a file in scenarios/, or a path that ends in .toml. `changes`: as
    `loads.0.arrivals.rate=4`, the value in TOML. Raises LoadTestError."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        known = ", ".join(scenario_names())
        raise LoadTestError(f"there is no scenario {name!r}; there are {known}") from None
    except OSError as error:
        raise LoadTestError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise LoadTestError(f"{path}: is no text") from None
    table = parse_table(text, path.name)
    for change in changes:
        _set(table, change)
    return scenario_of(table, path.name)


def _set(table: Table, change: str) -> None:
    key, equals, value = change.partition("=")
    if not equals or not all(key.split(".")):
        raise LoadTestError(f"--set {change}: give KEY=VALUE, as loads.0.sessions=100")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        # Words need no quotes.
        parsed = value
    *parents, last = key.split(".")
    place: object = table
    for part in parents:
        place = _inside(place, part, change)
    if isinstance(place, list):
        place[_index(place, last, change)] = parsed
    elif isinstance(place, dict):
        place[last] = parsed
    else:
        raise LoadTestError(f"--set {change}: nothing can stand there")


def _inside(place: object, part: str, change: str) -> object:
    """Tables that are not there yet are made."""
    if isinstance(place, dict):
        return place.setdefault(part, {})
    if isinstance(place, list):
        return place[_index(place, part, change)]
    raise LoadTestError(f"--set {change}: {part} is inside of something that has no parts")


def _index(place: list[object], part: str, change: str) -> int:
    if not part.isdecimal() or int(part) >= len(place):
        raise LoadTestError(f"--set {change}: {part} is no index of a list of {len(place)}")
    return int(part)
