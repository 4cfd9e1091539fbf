"""`make size`: how much code there is, and what is largest."""

from collections import Counter

from tests.support.source_tree import Size, modules, product, sizes

LARGEST = 5


def report() -> list[str]:
    lines = Counter[str]()
    for module in product():
        lines["/".join(module.place.split("/")[:2])] += module.lines
    measured = [size for module in product() for size in sizes(module)]
    tests = sum(module.lines for module in modules("tests"))
    return [
        *(f"{count:6} {package}" for package, count in sorted(lines.items()) if count),
        f"{sum(lines.values()):6} product, {tests} tests",
        *_largest(measured, "file lines"),
        *_largest(measured, "function lines"),
    ]


def _largest(measured: list[Size], kind: str) -> list[str]:
    found = sorted((size for size in measured if size.kind == kind), key=lambda size: -size.value)
    named = ", ".join(f"{size.what} {size.value}" for size in found[:LARGEST])
    return [f"largest by {kind}: {named}"]


if __name__ == "__main__":
    print("\n".join(report()))  # noqa: T201
