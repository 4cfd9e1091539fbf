"""Everything that predicts how long engines of one kind take, and the file it stands in.

Laws are of an engine alone and beside an engine that is in a step with prompts or with decodes on
the same machine. Two kinds of file: ours, as `make bench-costs` writes it, and DistServe's profile
(its simulator's `fit_params`), which knows no neighbours: there all three laws are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from common.domain.errors import ServingError
from common.engine.bench.costs.step_law import DecodePrices, PromptPrices, StepLaw
from common.engine.step_cost import StepShape

SCHEMA = 1
ALONE, BESIDE_PROMPTS, BESIDE_DECODES = "alone", "beside_prompts", "beside_decodes"


class UnreadableCosts(ServingError):
    """The file is not there, or not what it should be."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What an engine does between two forward passes: plan, batch, commit."""

    step_ms: float = 0.0
    row_ms: float = 0.0

    def ms(self, rows: int) -> float:
        return self.step_ms + self.row_ms * rows


@dataclass(frozen=True, slots=True)
class StepCosts:
    label: str
    """Where they come from, in words."""
    laws: Mapping[str, StepLaw]
    """By condition: ALONE, BESIDE_PROMPTS, BESIDE_DECODES."""
    outside: Outside
    token_bytes: int
    """Keys and values of one token."""
    kv_tokens: int | None = None
    """Room for so many; None: as the worker's settings say."""
    cores: int = 0
    """Of the machine that engines and all other processes share; 0: no engine shares its own."""

    def ms(self, shape: StepShape, condition: str = ALONE) -> float:
        return self.laws[condition].ms(shape) + self.outside.ms(shape.decode_rows)


_LENIENT = ConfigDict(extra="ignore", allow_inf_nan=False)


@with_config(_LENIENT)
@dataclass(frozen=True, slots=True)
class _Machine:
    cores: Annotated[int, Field(gt=0)]


@with_config(_LENIENT)
@dataclass(frozen=True, slots=True)
class _Ours:
    schema: int
    machine: _Machine
    token_bytes: Annotated[int, Field(gt=0)]
    outside_ms: Outside
    laws: dict[str, StepLaw]


Triple = tuple[float, float, float]


@with_config(_LENIENT)
@dataclass(frozen=True, slots=True)
class _DistServe:
    """Prices in the order base, tokens (or context), squares (or rows)."""

    decoding_large_small_bs_threshold: int
    prefill: Triple
    decoding_smallbs: Triple
    decoding_largebs: Triple


_OURS = TypeAdapter(_Ours)
_PROFILE = TypeAdapter(dict[str, dict[str, _DistServe]])
_HALF_BYTES = 2
_WIDTHS = {
    "facebook/opt-13b": 2 * 40 * 5120,
    "facebook/opt-66b": 2 * 64 * 9216,
    "facebook/opt-175b": 2 * 96 * 12288,
}
"""Numbers of keys and values that one token has, of the models DistServe measured: twice layers
times hidden size (Zhang et al. 2022, table 1)."""
_ROOM_TOKENS = 60_000
"""Of one A100 with 80 GB beside OPT-13B, about; larger ones have at least that much."""


def read_costs(words: str) -> StepCosts:
    """`words`: a path; of a profile with several models, as `profile.json#facebook/opt-13b@1`: the
    model and how many GPUs share a layer. Raises UnreadableCosts."""
    place, _hash, chosen = words.partition("#")
    try:
        text = Path(place).read_bytes()
    except OSError as error:
        raise UnreadableCosts(f"{place}: {error.strerror}; `make bench-costs` writes one") from None
    try:
        found = _OURS.validate_json(text)
    except ValidationError as error:
        return _of_profile(Path(place).name, text, chosen, str(error))
    laws = found.laws
    if found.schema != SCHEMA or not {ALONE, BESIDE_PROMPTS, BESIDE_DECODES} <= laws.keys():
        raise UnreadableCosts(f"{place}: not of schema {SCHEMA}: `make bench-costs` again")
    return StepCosts(
        label=Path(place).name,
        laws=laws,
        outside=found.outside_ms,
        token_bytes=found.token_bytes,
        cores=found.machine.cores,
    )


def _of_profile(name: str, text: bytes, chosen: str, problem: str) -> StepCosts:
    try:
        models = _PROFILE.validate_json(text)
    except ValidationError:
        raise UnreadableCosts(
            f"{name}: neither ours nor a profile of DistServe: {problem}"
        ) from None
    known = [f"{model}@{gpus}" for model, by_gpus in models.items() for gpus in by_gpus]
    if not known:
        raise UnreadableCosts(f"{name}: a profile of nothing")
    model, _at, gpus = (chosen or known[0]).partition("@")
    found = models.get(model, {}).get(gpus or "1")
    if found is None:
        raise UnreadableCosts(f"{name} has no {chosen}; it has {', '.join(known)}")
    law = _law(found)
    return StepCosts(
        label=f"{name}, {model}, {gpus or 1} GPUs a worker",
        laws=dict.fromkeys((ALONE, BESIDE_PROMPTS, BESIDE_DECODES), law),
        outside=Outside(),
        token_bytes=_HALF_BYTES * _WIDTHS.get(model, _WIDTHS["facebook/opt-13b"]),
        kv_tokens=_ROOM_TOKENS,
    )


def _law(found: _DistServe) -> StepLaw:
    """The profile has no step with both: one constant of two is taken to be saved, the smaller."""

    def decodes(triple: Triple) -> DecodePrices:
        base, context, row = triple
        return DecodePrices(base, row, context)

    few, many = decodes(found.decoding_smallbs), decodes(found.decoding_largebs)
    prompts = PromptPrices.of_squares(*found.prefill)
    return StepLaw(
        prompts=prompts,
        few=few,
        many=many,
        few_rows=found.decoding_large_small_bs_threshold,
        joined_ms=min(prompts.base_ms, few.base_ms),
    )
