"""What is to be measured: loads, targets, faults, and where a comparison's sides differ.

One TOML file in scenarios/ is one scenario. What it does not know, or what cannot work, is an error
that names the file and the key.
"""

import tomllib
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, ValidationError, model_validator

from loadtest.arrivals import ARRIVALS, Arrivals, Trace, Users, at_rate
from loadtest.errors import LoadTestError
from loadtest.kinds import changed, of_kind
from loadtest.measurement import ALL, SEARCH, SERVER
from loadtest.metrics import Targets
from loadtest.workloads import AnyWorkload


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )


class Load(_Part):
    """One stream of sessions. Several run at the same time and are measured apart and together."""

    name: str = Field(default="main", pattern=r"^[a-z][a-z0-9_]{0,31}$")
    workload: AnyWorkload
    arrivals: Annotated[Arrivals, of_kind(ARRIVALS)]
    sessions: int = Field(default=0, ge=0)
    """How many begin; 0: as many as begin within `seconds`, or as the workload has."""
    seconds: float = Field(default=0.0, ge=0)
    """No session begins later; 0: no such limit. What began is always seen to its end."""
    begins_s: float = Field(default=0.0, ge=0)
    """This long after the run."""
    settle: int = Field(default=0, ge=0)
    """The first so many sessions of an open load bring caches and queues to their steady state.
    They do not count, but stand among the requests as another load, `NAME-settling`."""

    @property
    def closed(self) -> bool:
        return isinstance(self.arrivals, Users)

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if not (self.sessions or self.seconds or isinstance(self.arrivals, Trace)):
            raise ValueError("give sessions or seconds, or it would never end")
        if self.settle and self.closed:
            raise ValueError("settle is of arrivals by a clock: a closed load has a steady part")
        if self.sessions and self.settle >= self.sessions:
            raise ValueError("settle leaves no session that counts")
        return self


class Request(_Part):
    """How each turn is asked for."""

    endpoint: Literal["chat", "completions"] = "chat"
    temperature: float = Field(default=0.0, ge=0)
    ignore_eos: bool = True
    """Ask for exactly max_tokens (an extension of vLLM, SGLang, llama.cpp and ours)."""
    count_chunks: bool = False
    """Ask for the usage so far in every chunk, to know how many tokens each brought."""
    ledger: bool = False
    """Ask for where the time of each request went (an extension of ours)."""
    limit_s: float = Field(default=600.0, gt=0)
    """A request that takes longer has failed."""
    body: dict[str, object] = {}
    """Further fields of the request's body."""


class Fault(_Part):
    """What is done to processes of a cluster of ours while the load runs."""

    at_s: float = Field(ge=0)
    action: Literal["kill", "pause", "drain"]
    """kill: SIGKILL. pause: SIGSTOP, and SIGCONT after `seconds`. drain: SIGTERM: it finishes what
    it has. The supervisor starts again what has ended."""
    process: str
    """By name, as `decode-0`, or a role, as `decode`, for all processes of it."""
    seconds: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _pause_ends(self) -> Self:
        if (self.action == "pause") != (self.seconds > 0):
            raise ValueError("a pause needs seconds, and nothing else takes them")
        return self


class Side(_Part):
    """One of the set-ups that a comparison takes turns with."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")
    topology: str = "aggregated"
    settings: dict[str, bool | int | float | str] = {}
    """Of every service that has such a field."""
    workloads: dict[str, dict[str, object]] = {}
    """By load: parameters of its workload that are other than the scenario says."""


class Claim(_Part):
    """A bound on the ratio of one measure, `side` over `against`, or on the measure itself."""

    text: str
    measure: str
    """As `main.ttft_ms.p50`; the report lists them."""
    side: str
    against: str = ""
    """'' bounds what `side` has by itself."""
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError("give at_least or at_most")
        return self

    def holds(self, ratio: float) -> bool:
        if self.at_least is not None:
            return ratio >= self.at_least
        return self.at_most is not None and ratio <= self.at_most


class Search(_Part):
    """Instead of one run: several, at rates that the kind chooses. The loads' arrivals are set to
    each."""

    kind: Literal["sweep", "goodput"]
    rates: tuple[PositiveFloat, ...] = ()
    """sweep: these, in this order."""
    low: float = Field(default=0.0, ge=0)
    high: float = Field(default=0.0, ge=0)
    attainment: float = Field(default=0.9, gt=0, le=1)
    """goodput: the highest rate between low and high at which so many requests meet all targets,"""
    precision: float = Field(default=0.05, gt=0, lt=1)
    """to so much of it."""

    @model_validator(mode="after")
    def _has_rates(self) -> Self:
        if self.kind == "sweep" and not self.rates:
            raise ValueError("a sweep needs rates")
        if self.kind == "goodput" and not 0 < self.low < self.high:
            raise ValueError("goodput is searched between low and high, which is above it")
        return self


class Scenario(_Part):
    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,47}$")
    description: str
    loads: tuple[Load, ...] = Field(min_length=1)
    targets: Targets = Targets()
    request: Request = Request()
    warmup: int = Field(default=0, ge=0)
    """Sessions of the first load, of another seed, that run one after another before and do not
    count."""
    faults: tuple[Fault, ...] = ()
    search: Search | None = None
    sides: tuple[Side, ...] = ()
    pairs: int = Field(default=3, ge=1)
    """Times that every side is measured, in turn, each time with another seed."""
    claims: tuple[Claim, ...] = ()

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        loads = [load.name for load in self.loads]
        sides = [side.name for side in self.sides]
        for names, what in ((loads, "loads"), (sides, "sides")):
            if len(set(names)) < len(names):
                raise ValueError(f"two {what} have the same name")
        for taken in (ALL, SEARCH, SERVER):
            if taken in loads:
                raise ValueError(f"a load cannot be called {taken!r}: figures are")
        for claim in self.claims:
            if not {claim.side, claim.against or claim.side} <= set(sides):
                raise ValueError(f"claim {claim.text!r} is about a side that is not there")
        for side in self.sides:
            if not side.workloads.keys() <= set(loads):
                raise ValueError(f"side {side.name!r} changes a load that is not there")
        return self

    @model_validator(mode="after")
    def _can_be_searched(self) -> Self:
        if self.search and self.search.kind == "goodput" and not self.targets.any:
            raise ValueError("search: goodput needs targets to meet, and there are none")
        for load in self.loads if self.search else ():
            try:
                at_rate(load.arrivals, 1.0)
            except ValueError as error:
                raise ValueError(f"search: load {load.name!r}: {error}") from None
        return self

    def without_sides(self) -> "Scenario":
        """For one server, or for others than its own sides, of which it claims nothing."""
        return self.model_copy(update={"sides": (), "claims": ()})

    def for_side(self, side: Side) -> "Scenario":
        """The scenario as this side sees it. Raises LoadTestError where its changes do not fit."""
        loads = []
        for load in self.loads:
            changes = side.workloads.get(load.name, {})
            try:
                kind = type(load.workload)
                workload = kind.model_validate(changed(load.workload.model_dump(), changes))
            except ValidationError as error:
                lines = explained(error, f"side {side.name}: workloads.{load.name}")
                raise LoadTestError("\n".join(lines)) from None
            loads.append(load.model_copy(update={"workload": workload}))
        return self.model_copy(update={"loads": tuple(loads)})

    def at_rate(self, rate: float) -> "Scenario":
        """Every load arrives at this rate."""
        loads = [
            load.model_copy(update={"arrivals": at_rate(load.arrivals, rate)})
            for load in self.loads
        ]
        return self.model_copy(update={"loads": tuple(loads)})


def parse_table(text: str, source: str) -> dict[str, object]:
    """Raises LoadTestError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LoadTestError(f"{source}: not TOML: {error}") from None


def scenario_of(table: dict[str, object], source: str) -> Scenario:
    """Of a file that was read. Raises LoadTestError."""
    try:
        scenario = Scenario.model_validate(table)
    except ValidationError as error:
        raise LoadTestError("\n".join(explained(error, source))) from None
    for side in scenario.sides:
        try:
            scenario.for_side(side)
        except LoadTestError as error:
            lines = str(error).splitlines()
            raise LoadTestError("\n".join(f"{source}: {line}" for line in lines)) from None
    stem = source.rsplit("/", 1)[-1].removesuffix(".toml")
    if scenario.name != stem:
        raise LoadTestError(f"{source}: name: is {scenario.name!r}, but the file is called {stem}")
    return scenario


def explained(error: ValidationError, source: str) -> list[str]:
    """A line for each thing that is wrong."""
    places = [detail["loc"] for detail in error.errors()]
    lines = []
    for detail in error.errors():
        at = detail["loc"]
        if detail["type"] == "too_short" and any(at == place[:-1][: len(at)] for place in places):
            continue  # It is empty because what it should hold is wrong.
        key = ".".join(str(part) for part in at)
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            message = "no such key"
        lines.append(f"{source}: {key}: {message}" if key else f"{source}: {message}")
    return lines
