import ast

import pytest

from tests.support.source_tree import called, calls, imports, nesting


def function(body: str) -> ast.AST:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return ast.parse(f"def f():\n{lines}").body[0]


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("pass", 0),
        ("if a:\n    pass", 1),
        ("if a:\n    pass\nelif b:\n    pass\nelif c:\n    pass", 1),
        ("for a in b:\n    if a:\n        pass\n    while c:\n        pass", 2),
        ("try:\n    with a:\n        pass\nexcept E:\n    if b:\n        pass", 2),
        ("match a:\n    case 1:\n        if b:\n            pass", 2),
        ("if a:\n    pass\nelse:\n    x\n    if b:\n        pass", 1),
    ],
)
def test_nesting_counts_statements_inside_each_other(body: str, depth: int) -> None:
    assert nesting(function(body)) == depth


def test_imports_are_found_wherever_they_stand() -> None:
    tree = ast.parse("import a.b\ndef f():\n    from c import d")
    assert set(imports(tree)) == {"a.b", "c", "c.d"}


def test_a_call_has_its_dotted_name() -> None:
    assert [called(call) for call in calls(ast.parse("a.b.c(1); d(2)"))] == ["a.b.c", "d"]
