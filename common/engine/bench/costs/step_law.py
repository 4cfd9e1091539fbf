"""What a step of one engine takes: the law that is fitted once and then predicts.

Two forms of DistServe's simulator (OSDI 2024), and what joins them:

    prompts = base + token * (prompt tokens) + pair * (pairs they attend to)
    decodes = base + row * (decode rows) + context * (keys they attend to), two sets of prices: for
              up to `few_rows` rows, and for more
    both    = prompts + decodes - joined

DistServe counts squares of prompt lengths where this law counts pairs, which also holds for a chunk
behind others: n * n = 2 * pairs - n. Pure.
"""

from dataclasses import dataclass

from common.engine.step_cost import StepShape


@dataclass(frozen=True, slots=True)
class PromptPrices:
    base_ms: float
    token_ms: float
    pair_ms: float

    @classmethod
    def of_squares(cls, base_ms: float, token_ms: float, square_ms: float) -> "PromptPrices":
        """From prices of a token and of the square of a prompt's length."""
        return cls(base_ms, token_ms - square_ms, 2 * square_ms)

    def ms(self, tokens: int, pairs: int) -> float:
        return self.base_ms + self.token_ms * tokens + self.pair_ms * pairs


@dataclass(frozen=True, slots=True)
class DecodePrices:
    base_ms: float
    row_ms: float
    context_ms: float

    def ms(self, rows: int, context_tokens: int) -> float:
        return self.base_ms + self.row_ms * rows + self.context_ms * context_tokens


@dataclass(frozen=True, slots=True)
class StepLaw:
    prompts: PromptPrices
    few: DecodePrices
    many: DecodePrices
    few_rows: int
    joined_ms: float
    """What a step with prompts and decodes takes less than two steps would."""

    def ms(self, shape: StepShape) -> float:
        rows, tokens = shape.decode_rows, shape.prefill_tokens
        decodes = self.decodes_ms(rows, shape.decode_context_tokens) if rows else 0.0
        prompts = self.prompts.ms(tokens, shape.prefill_pairs) if tokens else 0.0
        if rows and tokens:
            # However much joining saves, a step is not shorter than either part of it.
            return max(prompts + decodes - self.joined_ms, prompts, decodes)
        return prompts + decodes

    def decodes_ms(self, rows: int, context_tokens: int) -> float:
        prices = self.few if rows <= self.few_rows else self.many
        return prices.ms(rows, context_tokens)


def prompt_shape(tokens: int, cached_tokens: int = 0) -> StepShape:
    """One prompt, behind so many tokens that are there already."""
    return StepShape().with_chunk(cached_tokens, tokens)


def decode_shape(rows: int, context_tokens: int) -> StepShape:
    """Each row attends to so many."""
    return StepShape(rows, rows * context_tokens)
