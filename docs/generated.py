"""Pages that are part prose, part generated: what stands between two markers comes from the code.

    <!-- generated: NAME -->
    ...
    <!-- end: NAME -->

`make docs` writes the parts again; a test fails when a page and the code disagree.
"""

import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PART = re.compile(r"(<!-- generated: (?P<name>[a-z-]+) -->\n).*?(<!-- end: (?P=name) -->)", re.S)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """`page` with every part replaced. Raises KeyError for a marker without a part, ValueError for
    a part without a marker."""
    named = [match["name"] for match in _PART.finditer(page)]
    missing = parts.keys() - set(named)
    if missing:
        raise ValueError(f"no marker for {sorted(missing)}")
    return _PART.sub(lambda m: f"{m[1]}\n{parts[m['name']].strip()}\n\n{m[3]}", page)


def rewrite(path: Path, parts: Mapping[str, str]) -> None:
    path.write_text(filled(path.read_text(), parts))
