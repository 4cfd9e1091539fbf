"""Writes the diagrams of docs/states.md from the transition tables: `make docs`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from common.engine import sequence
from docs.generated import ROOT, rewrite
from services.gateway import streams
from services.kvstore import directory
from services.router import lifecycle

PAGE = ROOT / "docs" / "states.md"
S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=type | Enum)


@dataclass(frozen=True)
class Machine:
    states: tuple[Enum, ...]
    arrows: tuple[tuple[Enum, str, Enum], ...]
    """(state, event, the state it leads to)"""
    ignored: tuple[tuple[Enum, str], ...] = ()


def machine(
    table: Mapping[tuple[S, E], S | frozenset[S]], ignored: Iterable[tuple[S, E]] = ()
) -> Machine:
    """From a transition table whose rows have one target or several."""
    arrows: list[tuple[Enum, str, Enum]] = []
    for (source, event), targets in table.items():
        found = [targets] if isinstance(targets, Enum) else targets
        arrows += [(source, _named(event), target) for target in found]
    states = tuple(type(arrows[0][0]))
    passed_over = tuple((state, _named(event)) for state, event in ignored)
    return Machine(states, tuple(arrows), passed_over)


def machines() -> dict[str, Machine]:
    return {
        "stream": machine(streams.TRANSITIONS, streams.IGNORED),
        "attempt": machine(lifecycle.TRANSITIONS, lifecycle.IGNORED),
        "sequence": machine(sequence.TRANSITIONS),
        "copy": machine(directory.TRANSITIONS),
    }


def parts() -> dict[str, str]:
    return {name: f"{diagram(m)}\n\n{ignored(m)}" for name, m in machines().items()}


def diagram(machine: Machine) -> str:
    """Mermaid: an arrow a pair of states, with every event that may lead from one to the other."""
    order = {state: rank for rank, state in enumerate(machine.states)}
    events: dict[tuple[Enum, Enum], list[str]] = {}
    for source, event, target in machine.arrows:
        events.setdefault((source, target), []).append(event)
    lines = ["stateDiagram-v2", f"    [*] --> {machine.states[0].value}"]
    for source, target in sorted(events, key=lambda pair: (order[pair[0]], order[pair[1]])):
        named = ", ".join(events[source, target])
        lines.append(f"    {source.value} --> {target.value}: {named}")
    ends = set(machine.states) - {source for source, _ in events}
    lines += [f"    {state.value} --> [*]" for state in machine.states if state in ends]
    return "\n".join(["```mermaid", *lines, "```"])


def ignored(machine: Machine) -> str:
    """What a state passes over, in words."""
    if not machine.ignored:
        return "Ignored events: none. An event without an arrow raises `InvalidTransition`."
    known = {event for _, event, _ in machine.arrows} | {event for _, event in machine.ignored}
    lines = ["Ignored events; any other event without an arrow raises `InvalidTransition`:", ""]
    for state in machine.states:
        events = {event for place, event in machine.ignored if place is state}
        if events:
            named = "every event" if events == known else ", ".join(sorted(events))
            lines.append(f"- in `{state.value}`: {named}")
    return "\n".join(lines)


def _named(event: type | Enum) -> str:
    return str(event.value) if isinstance(event, Enum) else event.__name__


if __name__ == "__main__":
    rewrite(PAGE, parts())
