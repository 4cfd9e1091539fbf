from enum import Enum

from docs.generated import filled
from docs.states_page import PAGE, diagram, ignored, machine, machines, parts


class Door(Enum):
    OPEN = "open"
    SHUT = "shut"
    BRICKED = "bricked"


class Event(Enum):
    PUSH = "push"
    BRICK = "brick"


EDGES = {
    (Door.OPEN, Event.PUSH): frozenset({Door.SHUT, Door.OPEN}),
    (Door.SHUT, Event.PUSH): Door.OPEN,
    (Door.SHUT, Event.BRICK): Door.BRICKED,
}


def test_the_page_is_what_the_tables_say() -> None:
    text = PAGE.read_text()
    assert text == filled(text, parts()), "run: make docs"


def test_a_diagram_has_every_arrow_once_in_the_order_of_the_states() -> None:
    assert diagram(machine(EDGES)).splitlines() == [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> open",
        "    open --> open: push",
        "    open --> shut: push",
        "    shut --> open: push",
        "    shut --> bricked: brick",
        "    bricked --> [*]",
        "```",
    ]


def test_what_is_ignored_is_said() -> None:
    passed_over = [(Door.BRICKED, event) for event in Event] + [(Door.OPEN, Event.BRICK)]
    text = ignored(machine(EDGES, passed_over))
    assert "- in `open`: brick\n- in `bricked`: every event" in text


def test_every_state_of_every_machine_can_be_reached() -> None:
    for one in machines().values():
        reached = {target for _, _, target in one.arrows}
        assert reached | {one.states[0]} == set(one.states)
