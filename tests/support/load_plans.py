"""Small loads: fixed lengths, or the very sessions that a test wrote."""

from collections.abc import Iterator
from typing import Any

from loadtest.scenario import Load, Scenario
from loadtest.session import Message, Session, Turn
from loadtest.workload import Workload
from loadtest.writer import Writer

FIXED = {"kind": "fixed", "tokens": 3}
SYNTHETIC = {"kind": "synthetic", "prompt_tokens": FIXED, "output_tokens": FIXED}


class Written(Workload):
    """Those that a test wrote; `fails` instead of another one after them."""

    kind: str = "written"
    those: tuple[Session, ...]
    fails: BaseException | None = None

    model_config = Workload.model_config | {"arbitrary_types_allowed": True}

    def sessions(self, seed: int, writer: Writer) -> Iterator[Session]:
        yield from self.those
        if self.fails is not None:
            raise self.fails


def load(arrivals: dict[str, Any], **more: Any) -> Load:
    return Load.model_validate({"workload": SYNTHETIC, "arrivals": arrivals} | more)


def scenario(*loads: Load, **more: Any) -> Scenario:
    return Scenario.model_validate(
        {"name": "small", "description": "Small.", "loads": loads} | more
    )


def turns(*pauses: float) -> Session:
    return Session(
        tuple(
            Turn((Message("user", f"question {n}"),), 3, pause_s=pause)
            for n, pause in enumerate(pauses, 1)
        )
    )


def written(
    *those: Session, arrivals: dict[str, Any], fails: BaseException | None = None, **more: Any
) -> Load:
    return load(arrivals, workload=Written(those=those, fails=fails), **more)


def at(*moments: float) -> list[Session]:
    """As a trace has them."""
    return [Session(turns(0).turns, at_s=moment) for moment in moments]
