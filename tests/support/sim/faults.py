"""What happens to which process when, drawn from a seed.

A seed first draws what can go wrong at all, so that many runs have one kind of trouble only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.support.sim.world import Shape


class Kind(Enum):
    KILL = "kill"
    FREEZE = "freeze"
    """It is there and does nothing, as under SIGSTOP."""
    RESTART = "restart"
    """It is asked to go, and comes again: nobody's request may fail for it."""


@dataclass(frozen=True)
class Fault:
    at: float
    kind: Kind
    name: str
    lasts_s: float


def faults(seed: str, shape: Shape, busy: Sequence[float]) -> list[Fault]:
    """In order of time, each in the second after one of the `busy` moments. A process that is in
    trouble when its time comes is spared."""
    rng = Random(f"{seed}/faults")
    roles = dict.fromkeys(name.split("-")[0] for name in shape.names)
    mortal = [role for role in roles if rng.random() < 0.5] or ["decode"]
    names = [name for name in shape.names if name.split("-")[0] in mortal]
    kinds = rng.choice(([Kind.KILL], [Kind.FREEZE], [Kind.RESTART], list(Kind)))
    found = [
        Fault(
            rng.choice(busy) + rng.random(),
            rng.choice(kinds),
            rng.choice(names),
            rng.choice((0.0, 0.05, 1.0, 3.5, 6.0)),
        )
        for _ in range(rng.randint(2, 8))
    ]
    return sorted(found, key=lambda fault: fault.at)
