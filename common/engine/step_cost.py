"""What a step costs, learned from the steps that ran, and how much prompt fits beside decodes.

The law: seconds = step + decode rows + context they read + prompt tokens + pairs they attend to,
each times a price that is never negative. Prices minimise the *relative* error over recent steps,
so that a step of 5 ms counts as much as one of 500, and one that hung (page faults, a busy machine)
weighs next to nothing. Steps with decodes only, with prompts only and with both are remembered
apart: hours of plain decoding do not wash out what a chunk costs.

Owns the prices. Pure: durations are arguments, equal ones give equal answers.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

REFERENCE_CHUNK = 128
"""Without a target a prompt may delay decodes by the time this many tokens take by themselves."""
MEMORY = 0.95
"""What a step's weight is multiplied by when the next one of its kind arrives."""
ENOUGH = 4
"""Steps with decodes, and steps with prompts, before the prices are believed."""
PROMPT_ONLY_WEIGHT = 0.1
"""These are large and compute-bound; what is asked for is the price beside decodes."""
STEADY = 1e-3
"""Weight of the two assumptions (small prices, DOUBLE_AT) against what was measured."""
DOUBLE_AT = 1024
"""The context at which a token is assumed to cost twice what it does at the beginning."""
OVERRUN_STEP = 0.2
"""How far one step moves the mean overrun."""
LARGEST_OVERRUN = 0.25
"""A step that hung says no more than this."""
CAUTION = 2.0
"""A limit is lowered by this times the mean overrun, which few steps exceed."""
SHORTEST_S = 1e-6
"""No step is shorter: a clock that stands still, or ticks coarsely, says nothing."""
UNLIMITED = 1 << 20
"""Tokens; stands for a chunk that costs nothing."""
ROUNDING = 1e-9

PER_TOKEN, PER_PAIR = 3, 4
ASSUMED = (0.0, 0.0, 0.0, 1.0, 1.0 / DOUBLE_AT)
"""Prices before anything is known, in units of one token."""


def chunk_pairs(context_tokens: int, tokens: int) -> int:
    """How many (query, key) pairs a chunk has that begins after `context_tokens`."""
    return tokens * context_tokens + tokens * (tokens + 1) // 2


@dataclass(frozen=True, slots=True)
class StepShape:
    """What of one step decides its cost."""

    decode_rows: int = 0
    decode_context_tokens: int = 0
    """Keys that the decode rows attend to, summed over the rows."""
    prefill_tokens: int = 0
    prefill_pairs: int = 0

    def with_chunk(self, context_tokens: int, tokens: int) -> "StepShape":
        return StepShape(
            self.decode_rows,
            self.decode_context_tokens,
            self.prefill_tokens + tokens,
            self.prefill_pairs + chunk_pairs(context_tokens, tokens),
        )

    def features(self) -> tuple[float, ...]:
        return (
            1.0,
            float(self.decode_rows),
            float(self.decode_context_tokens),
            float(self.prefill_tokens),
            float(self.prefill_pairs),
        )


REFERENCE = StepShape().with_chunk(0, REFERENCE_CHUNK)


class Evidence:
    """Weighted sums over the steps of one kind: the normal equations of `features / seconds` = 1,
    that is of the relative error."""

    def __init__(self) -> None:
        size = len(ASSUMED)
        self.steps = 0
        self.products: Floats = np.zeros((size, size))
        self.sums: Floats = np.zeros(size)

    def add(self, shape: StepShape, seconds: float) -> None:
        row = np.asarray(shape.features()) / seconds
        self.products = MEMORY * self.products + np.outer(row, row)
        self.sums = MEMORY * self.sums + row
        self.steps += 1


class StepCost:
    """Learns from `observe`, answers with `predict` and `chunk_tokens`."""

    def __init__(self) -> None:
        self._decodes, self._prompts, self._mixed = Evidence(), Evidence(), Evidence()
        self._prices: tuple[float, ...] = ASSUMED
        self._stale = False
        self._overrun = 0.0
        """By what share steps with decodes and prompts take longer than predicted, lately."""

    @property
    def known(self) -> bool:
        """Whether `predict` is in seconds; before, it is in units of one prompt token."""
        mixed = self._mixed.steps
        return min(self._decodes.steps + mixed, self._prompts.steps + mixed) >= ENOUGH

    def observe(self, shape: StepShape, seconds: float) -> None:
        if seconds < SHORTEST_S:
            return
        if not shape.prefill_tokens:
            self._decodes.add(shape, seconds)
        elif not shape.decode_rows:
            self._prompts.add(shape, seconds)
        else:
            if self.known:
                self._note_overrun(seconds, self.predict(shape))
            self._mixed.add(shape, seconds)
        self._stale = True

    def predict(self, shape: StepShape) -> float:
        return sum(
            price * amount for price, amount in zip(self._current(), shape.features(), strict=True)
        )

    def chunk_tokens(self, planned: StepShape, context_tokens: int, target_s: float) -> int:
        """Most tokens of a prompt, `context_tokens` of which are computed, that may join the
        planned step. With a target the whole step is predicted to take no longer than it; with 0,
        or before the prices are known, no longer than its decodes alone and a chunk of
        REFERENCE_CHUNK alone. Less by as much as predictions were too low. 0 if nothing fits."""
        if target_s > 0.0 and self.known:
            limit = target_s
        else:
            decodes = StepShape(planned.decode_rows, planned.decode_context_tokens)
            limit = self.predict(decodes) + self.predict(REFERENCE)
        spare = limit / (1.0 + CAUTION * self._overrun) - self.predict(planned)
        if spare <= 0.0:
            return 0
        prices = self._current()
        # The largest t with linear * t + square * t^2 <= spare; this form of the root divides by
        # zero only where a chunk is free.
        linear = prices[PER_TOKEN] + prices[PER_PAIR] * (context_tokens + 0.5)
        square = prices[PER_PAIR] / 2
        slope = linear + math.sqrt(linear * linear + 4 * square * spare)
        if 2 * spare >= slope * UNLIMITED:
            return UNLIMITED
        return int(2 * spare / slope * (1 + ROUNDING))

    def _note_overrun(self, seconds: float, predicted: float) -> None:
        if seconds >= predicted * (1.0 + LARGEST_OVERRUN):
            share = LARGEST_OVERRUN
        else:
            share = max(seconds / predicted - 1.0, 0.0)
        self._overrun += (share - self._overrun) * OVERRUN_STEP

    def _current(self) -> tuple[float, ...]:
        if self._stale and self.known:
            self._prices = self._fit()
            self._stale = False
        return self._prices

    def _fit(self) -> tuple[float, ...]:
        seen = self._decodes.products + self._mixed.products
        products = seen + PROMPT_ONLY_WEIGHT * self._prompts.products
        sums = self._decodes.sums + self._mixed.sums + PROMPT_ONLY_WEIGHT * self._prompts.sums
        # What never occurred has price 0 whatever it is divided by.
        scale = np.sqrt(np.where(np.diag(products) > 0.0, np.diag(products), 1.0))
        scaled = products / np.outer(scale, scale)
        assumption = np.zeros(len(scale))
        assumption[PER_TOKEN] = 1.0
        assumption[PER_PAIR] = -DOUBLE_AT * scale[PER_TOKEN] / scale[PER_PAIR]
        scaled += STEADY * (np.eye(len(scale)) + np.outer(assumption, assumption))
        return tuple((_never_negative(scaled, sums / scale) / scale).tolist())


def _never_negative(products: Floats, sums: Floats) -> Floats:
    """Least squares from its normal equations, leaving out the most negative unknown until none
    is: not the best such solution, but near it, and at most one small solve per unknown."""
    kept = np.arange(len(sums))
    while True:
        solution = np.linalg.solve(products[np.ix_(kept, kept)], sums[kept])
        if not kept.size or solution.min() >= 0.0:
            prices = np.zeros(len(sums))
            prices[kept] = solution
            return prices
        kept = np.delete(kept, solution.argmin())
