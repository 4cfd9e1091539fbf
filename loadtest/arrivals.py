"""When sessions begin: moments on an absolute schedule, or users that wait for their answers.

Each kind is one class and one line of the table. Open kinds yield seconds since the run began,
never falling; nobody asks whether the server keeps up. Pure: randomness is an argument.
"""

import math
from collections.abc import Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Constant(_Kind):
    """Evenly spaced."""

    kind: Literal["constant"] = "constant"
    rate: float = Field(gt=0, description="Sessions a second.")

    def moments(self, random: Random) -> Iterator[float]:
        number = 0
        while True:
            yield number / self.rate
            number += 1


class Gamma(_Kind):
    """Independent gaps, gamma distributed. `burstiness` is the shape: 1 is Poisson, below 1 comes
    in bursts (the squared coefficient of variation is 1 / burstiness), above 1 is more even."""

    kind: Literal["gamma"] = "gamma"
    rate: float = Field(gt=0, description="Sessions a second, in the mean.")
    burstiness: float = Field(gt=0, description="Shape of the gamma distribution.")

    def moments(self, random: Random) -> Iterator[float]:
        at = 0.0
        while True:
            at += random.gammavariate(self.burstiness, 1 / (self.rate * self.burstiness))
            yield at


class Poisson(_Kind):
    """Independent gaps, exponentially distributed: many users who know nothing of each other."""

    kind: Literal["poisson"] = "poisson"
    rate: float = Field(gt=0, description="Sessions a second, in the mean.")

    def moments(self, random: Random) -> Iterator[float]:
        at = 0.0
        while True:
            at += random.expovariate(self.rate)
            yield at


class Ramp(_Kind):
    """A Poisson process whose rate changes evenly from `rate` to `last_rate`, then stays."""

    kind: Literal["ramp"] = "ramp"
    rate: float = Field(gt=0, description="Sessions a second at the beginning.")
    last_rate: float = Field(gt=0, description="Sessions a second from `seconds` on.")
    seconds: float = Field(gt=0, description="Until when the rate changes.")

    def moments(self, random: Random) -> Iterator[float]:
        due = 0.0
        while True:
            due += random.expovariate(1.0)
            yield self._when(due)

    def _when(self, due: float) -> float:
        """When so many sessions are due: the inverse of the integral of the rate."""
        slope = (self.last_rate - self.rate) / self.seconds
        in_ramp = (self.rate + self.last_rate) / 2 * self.seconds
        if due >= in_ramp:
            return self.seconds + (due - in_ramp) / self.last_rate
        # This form of the root holds for slope 0, too.
        return 2 * due / (self.rate + math.sqrt(self.rate**2 + 2 * slope * due))


class Bursts(_Kind):
    """Poisson while on, nothing while off, over and over."""

    kind: Literal["bursts"] = "bursts"
    rate: float = Field(gt=0, description="Sessions a second while on.")
    on_s: float = Field(gt=0, description="How long each burst lasts.")
    off_s: float = Field(ge=0, description="How long the silence between bursts lasts.")

    def moments(self, random: Random) -> Iterator[float]:
        on = 0.0
        while True:
            on += random.expovariate(self.rate)
            yield on + math.floor(on / self.on_s) * self.off_s


class Trace(_Kind):
    """The moments that the sessions themselves bring, `speed` times as fast."""

    kind: Literal["trace"] = "trace"
    speed: float = Field(default=1.0, gt=0, description="2: in half the time.")


class Users(_Kind):
    """A closed loop: each user begins the next session when the last one has ended. It cannot show
    overload, since a slow server is asked less."""

    kind: Literal["users"] = "users"
    users: int = Field(ge=1, le=100_000, description="Sessions at a time.")
    think_s: float = Field(default=0.0, ge=0, description="Between two sessions of a user.")
    stagger_s: float = Field(default=0.0, ge=0, description="Over which the users begin.")


Open = Constant | Gamma | Poisson | Ramp | Bursts
Arrivals = Open | Trace | Users

ARRIVALS: Mapping[str, type[Arrivals]] = MappingProxyType(
    {
        "bursts": Bursts,
        "constant": Constant,
        "gamma": Gamma,
        "poisson": Poisson,
        "ramp": Ramp,
        "trace": Trace,
        "users": Users,
    }
)


def at_rate(arrivals: Arrivals, rate: float) -> Arrivals:
    """The same at another rate; users stand for themselves, and a trace for its speed. Raises
    ValueError where the rate is no single number."""
    match arrivals:
        case Constant() | Gamma() | Poisson() | Bursts():
            return arrivals.model_copy(update={"rate": rate})
        case Users():
            return arrivals.model_copy(update={"users": max(1, round(rate))})
        case Trace():
            return arrivals.model_copy(update={"speed": rate})
        case Ramp():
            raise ValueError("a ramp has no rate to change: sweep over another kind of arrivals")
