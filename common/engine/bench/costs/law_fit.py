"""From measured steps to the law: least squares of the relative error, no price below zero.

The kinds of step are fitted one after another: prompts alone, decodes alone with every threshold
between two batch sizes (the one with the smallest sum of squares stays), and then, of steps with
both, the one number that joins them. What the law misses is told by kind of step. Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.engine.bench.costs.step_law import DecodePrices, PromptPrices, StepLaw
from common.engine.step_cost import StepShape

Floats = npt.NDArray[np.float64]

LEAST_SIZES = 3
"""Batch sizes on each side of a threshold: three prices are fitted there."""


@dataclass(frozen=True, slots=True)
class Sample:
    shape: StepShape
    ms: float

    @property
    def kind(self) -> str:
        if not self.shape.decode_rows:
            return "prompts"
        return "mixed" if self.shape.prefill_tokens else "decodes"


@dataclass(frozen=True, slots=True)
class Missed:
    """Relative errors, without sign, of steps that were not fitted."""

    steps: int
    median: float
    p90: float


def fit_law(samples: Sequence[Sample]) -> StepLaw:
    """Raises ValueError where a kind of step is missing."""
    prompts, decodes, mixed = (
        [sample for sample in samples if sample.kind == kind]
        for kind in ("prompts", "decodes", "mixed")
    )
    if not (prompts and decodes and mixed):
        raise ValueError("the law needs steps with prompts, with decodes, and with both")
    rows = [(1.0, s.shape.prefill_tokens, s.shape.prefill_pairs) for s in prompts]
    prompt_prices = PromptPrices(*_prices(rows, prompts))
    few, many, few_rows = _decode_prices(decodes)
    apart = StepLaw(prompt_prices, few, many, few_rows, 0.0)
    return StepLaw(prompt_prices, few, many, few_rows, _joined_ms(apart, mixed))


def missed(law: StepLaw, samples: Iterable[Sample]) -> dict[str, Missed]:
    """By kind of step."""
    errors: dict[str, list[float]] = {}
    for sample in samples:
        error = abs(law.ms(sample.shape) / sample.ms - 1)
        errors.setdefault(sample.kind, []).append(error)
    return {
        kind: Missed(len(found), *(float(p) for p in np.percentile(found, (50, 90))))
        for kind, found in errors.items()
    }


def _decode_prices(samples: Sequence[Sample]) -> tuple[DecodePrices, DecodePrices, int]:
    sizes = sorted({sample.shape.decode_rows for sample in samples})
    best: tuple[float, DecodePrices, DecodePrices, int] | None = None
    for few_rows in sizes[LEAST_SIZES - 1 : -LEAST_SIZES] or sizes[-1:]:
        few_samples = [s for s in samples if s.shape.decode_rows <= few_rows]
        few = _of_decodes(few_samples)
        many_samples = [s for s in samples if s.shape.decode_rows > few_rows]
        many = _of_decodes(many_samples) if many_samples else few
        error = _squares(few, few_samples) + _squares(many, many_samples)
        if best is None or error < best[0]:
            best = (error, few, many, few_rows)
    assert best is not None
    return best[1:]


def _of_decodes(samples: Sequence[Sample]) -> DecodePrices:
    rows = [(1.0, s.shape.decode_rows, s.shape.decode_context_tokens) for s in samples]
    return DecodePrices(*_prices(rows, samples))


def _squares(prices: DecodePrices, samples: Iterable[Sample]) -> float:
    return sum(
        (prices.ms(s.shape.decode_rows, s.shape.decode_context_tokens) / s.ms - 1) ** 2
        for s in samples
    )


def _joined_ms(apart: StepLaw, samples: Sequence[Sample]) -> float:
    """Least squares in one unknown; of either sign."""
    over = sum((apart.ms(s.shape) - s.ms) / s.ms**2 for s in samples)
    return over / sum(1 / s.ms**2 for s in samples)


def _prices(rows: Sequence[tuple[float, ...]], samples: Sequence[Sample]) -> list[float]:
    """The most negative price is left out until none is."""
    seconds = np.array([sample.ms for sample in samples])
    features: Floats = np.array(rows, dtype=np.float64) / seconds[:, None]
    kept = np.arange(features.shape[1])
    prices = np.zeros(features.shape[1])
    while kept.size:
        found = np.linalg.lstsq(features[:, kept], np.ones(len(samples)), rcond=None)[0]
        if found.min() >= 0:
            prices[kept] = found
            break
        kept = np.delete(kept, found.argmin())
    return [float(price) for price in prices]
