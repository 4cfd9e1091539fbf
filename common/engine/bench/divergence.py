"""How far the distributions of one arithmetic are from another's, summed over tokens of a text.

All from logits, in float64 where sums are long: Kullback-Leibler divergence of the next token, how
often the likeliest one is the same, and the perplexity of the text in both.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
_ROWS = 64
"""At once: a row of a large vocabulary in float64 is half a megabyte."""


@dataclass(slots=True)
class Divergence:
    tokens: int = 0
    kl: float = 0.0
    same_best: int = 0
    scored: int = 0
    """Tokens of the text that another one follows."""
    reference_loss: float = 0.0
    loss: float = 0.0

    def add(self, reference: Float32Array, logits: Float32Array, following: list[int]) -> None:
        """Logits [tokens, vocab] of the same tokens. `following`: what the text goes on with after
        each of them, or after all but the last."""
        for begin in range(0, len(logits), _ROWS):
            rows = slice(begin, begin + _ROWS)
            self._add(reference[rows], logits[rows], following[rows])

    def _add(self, reference: Float32Array, logits: Float32Array, following: list[int]) -> None:
        p, q = _log_softmax(reference), _log_softmax(logits)
        self.tokens += len(p)
        self.kl += float((np.exp(p) * (p - q)).sum())
        self.same_best += int((p.argmax(axis=1) == q.argmax(axis=1)).sum())
        self.scored += len(following)
        places = np.arange(len(following)), np.asarray(following, dtype=np.int64)
        self.reference_loss -= float(p[places].sum())
        self.loss -= float(q[places].sum())

    def result(self) -> dict[str, float]:
        """Means over the tokens; kl in nats."""
        reference = float(np.exp(self.reference_loss / self.scored))
        perplexity = float(np.exp(self.loss / self.scored))
        return {
            "tokens": self.tokens,
            "kl": self.kl / self.tokens,
            "same_best": self.same_best / self.tokens,
            "reference_perplexity": reference,
            "perplexity": perplexity,
            "perplexity_change": perplexity / reference - 1,
        }


def _log_softmax(logits: Float32Array) -> Float64Array:
    shifted: Float64Array = logits.astype(np.float64)
    shifted -= logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted
