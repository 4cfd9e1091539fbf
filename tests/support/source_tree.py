"""The source tree as data: modules, their syntax trees, sizes and imports."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("common", "services", "deploy", "loadtest")
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Nesting = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(frozen=True)
class Module:
    path: Path

    @property
    def place(self) -> str:
        """common/wire/port.py"""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def dotted(self) -> str:
        return self.place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def tree(self) -> ast.Module:
        return _parsed(self.path)

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def has_code(self) -> bool:
        """Something in it can go wrong: a function with more than a docstring or `...`."""
        return any(isinstance(node, _Function) and _acts(node) for node in ast.walk(self.tree))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _acts(function: ast.AST) -> bool:
    body: list[ast.stmt] = getattr(function, "body")  # noqa: B009
    return not all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in body
    )


def modules(*tops: str) -> list[Module]:
    found = (path for top in tops for path in (ROOT / top).rglob("*.py"))
    return [Module(path) for path in sorted(found)]


def product() -> list[Module]:
    return modules(*PRODUCT)


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of what is imported, anywhere in the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def called(node: ast.Call) -> str:
    """`a.b.c` of a call `a.b.c(...)`; empty for what is no plain name."""
    parts: list[str] = []
    target: ast.expr = node.func
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return ""
    return ".".join([target.id, *reversed(parts)])


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


@dataclass(frozen=True)
class Size:
    """One measured thing that has a cap."""

    what: str
    """`common/wire/port.py` or `common/wire/port.py:Port.send`."""
    kind: str
    value: int


def sizes(module: Module) -> Iterator[Size]:
    yield Size(module.place, "file lines", module.lines)
    yield from _sizes_below(module.tree, module.place + ":")


def _sizes_below(node: ast.AST, prefix: str) -> Iterator[Size]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield Size(prefix + child.name, "class lines", _length(child))
            yield from _sizes_below(child, f"{prefix}{child.name}.")
        elif isinstance(child, _Function):
            name = prefix + child.name
            yield Size(name, "function lines", _length(child))
            yield Size(name, "parameters", _parameters(child))
            yield Size(name, "nesting", nesting(child))
            yield from _sizes_below(child, f"{name}.")


def _length(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in named if argument.arg not in ("self", "cls")])


def nesting(node: ast.AST) -> int:
    """Compound statements one inside the other. `elif` and a nested function count once each."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        inner = nesting(child)
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        if isinstance(child, (*_Nesting, *_Function)) and not is_elif:
            inner += 1
        deepest = max(deepest, inner)
    return deepest
