"""Writes the tables of docs/wire.md from the message classes: `make docs`.

Types and fields come from common.wire.messages.TAGS. Who sends a message to whom is written here,
because no class says it; a message without a way fails the page's test.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Iterator, Sequence

from common.domain.finish import FinishReason
from common.wire import messages as m
from common.wire.messages import TAGS
from docs.generated import ROOT, rewrite

PAGE = ROOT / "docs" / "wire.md"
WAYS: dict[type, str] = {
    m.Hello: "anybody -> router; worker <-> kvstore",
    m.Welcome: "router -> whoever said Hello",
    m.Pulse: "anybody -> router; writer -> gateway",
    m.ClusterView: "router -> gateway",
    m.StoreView: "router -> worker",
    m.Goodbye: "worker, kvstore -> router",
    m.Submit: "gateway -> router",
    m.Placed: "router -> gateway",
    m.Failed: "router, writer -> gateway; writer -> router; prefill -> decode",
    m.Cancel: "gateway -> router -> writer -> prefill; gateway -> writer",
    m.Assign: "router -> writer",
    m.Accepted: "writer -> router",
    m.PromptDone: "writer -> router",
    m.Ended: "writer -> router",
    m.Prefill: "decode -> prefill",
    m.Blocks: "prefill -> decode",
    m.FirstTokens: "prefill -> decode",
    m.Released: "decode -> prefill",
    m.Renew: "gateway -> writer; decode -> prefill",
    m.TokenBatch: "writer -> gateway",
    m.Finished: "writer -> gateway",
    m.FinishAck: "gateway -> writer",
    m.Offer: "worker -> kvstore",
    m.Taken: "kvstore -> worker",
    m.Lookup: "worker -> kvstore",
    m.Found: "kvstore -> worker",
    m.LeaseDone: "worker -> kvstore",
    m.BlocksStored: "worker, kvstore -> router",
    m.BlocksRemoved: "worker, kvstore -> router",
    m.SnapshotWanted: "router -> worker, kvstore",
    m.Snapshot: "worker, kvstore -> router",
}
SENT_AS_BYTES: list[type[enum.Enum]] = [FinishReason]
"""Enumerations that stand packed in a column and so in no annotation."""


def parts() -> dict[str, str]:
    records, enums = _reachable(TAGS.values())
    return {
        "messages": "\n\n".join(_conversations()),
        "records": _table(
            ("record", "fields, in order"),
            [(f"`{cls.__name__}`", _fields(cls)) for cls in records],
        ),
        "enumerations": _table(
            ("enumeration", "numbers"),
            [(f"`{cls.__name__}`", _numbers(cls)) for cls in enums + SENT_AS_BYTES],
        ),
    }


def _conversations() -> Iterator[str]:
    by_module: dict[str, list[tuple[str, str, str, str]]] = {}
    for tag, cls in sorted(TAGS.items()):
        row = (str(tag), f"`{cls.__name__}`", WAYS[cls], _fields(cls))
        by_module.setdefault(cls.__module__, []).append(row)
    for module, rows in by_module.items():
        path = f"{module.replace('.', '/')}.py"
        table = _table(("tag", "message", "way", "fields, in order"), rows)
        yield f"### [`{path}`](../{path})\n\n{table}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _fields(cls: type) -> str:
    hints = typing.get_type_hints(cls)
    shown = [
        f"{field.name}{'' if _required(field) else '?'}: {spelled(hints[field.name])}"
        for field in dataclasses.fields(cls)
    ]
    return "; ".join(f"`{text}`" for text in shown) or "none"


def _required(field: "dataclasses.Field[object]") -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _numbers(cls: type[enum.Enum]) -> str:
    return ", ".join(f"{member.value} {member.name}" for member in cls)


def spelled(annotation: object) -> str:
    """An annotation as its author wrote it, with a bar that does not end a table's cell."""
    if annotation is types.NoneType:
        return "None"
    if annotation is Ellipsis:
        return "..."
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(spelled, args))
    if origin is typing.Literal:
        return " or ".join(map(repr, args))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(spelled, args))}]"
    return str(getattr(annotation, "__name__", annotation))


def _reachable(roots: typing.Iterable[type]) -> tuple[list[type], list[type[enum.Enum]]]:
    """Records and enumerations inside messages, in the order in which they are met."""
    tagged = set(TAGS.values())
    seen: dict[type, None] = {}
    waiting: list[object] = list(roots)
    while waiting:
        annotation = waiting.pop(0)
        args = typing.get_args(annotation)
        if args:
            waiting += args
        elif isinstance(annotation, type) and annotation not in seen:
            seen[annotation] = None
            if dataclasses.is_dataclass(annotation):
                waiting += typing.get_type_hints(annotation).values()
    records = [cls for cls in seen if dataclasses.is_dataclass(cls) and cls not in tagged]
    return records, [cls for cls in seen if issubclass(cls, enum.Enum)]


if __name__ == "__main__":
    rewrite(PAGE, parts())
