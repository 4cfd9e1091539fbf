"""Prompts of the lengths at which systems break, as token ids drawn from a seed."""

import numpy as np

LENGTHS = (
    1, 31, 32, 33, 64, 511, 512, 513, 2000, 1990,
    2, 3, 5, 7, 15, 16, 17, 30, 48, 63, 65, 80, 95, 96, 97, 100, 127, 128, 129, 160,
    191, 200, 224, 250, 256, 257, 300, 320, 350, 400,
)  # fmt: skip
"""40 of them: one token, block and chunk borders and their neighbours, about 2,000."""


def token_prompt(length: int, vocab: int, seed: int = 0) -> list[int]:
    """Ids over the whole vocabulary but its first 32, where special tokens lie."""
    return np.random.default_rng([seed, length]).integers(32, vocab, length).tolist()
