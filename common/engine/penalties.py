"""What a request's parameters do to a row of logits before a token is chosen from it.

The order is fixed by `SamplingParams`: bias, repetition, presence and frequency, ban of end tokens.
Few ids are touched, so a sampler reads and writes those alone, wherever its logits are. Ids outside
the vocabulary change nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.domain.sampling import SamplingParams
from common.engine.runner import Draw

Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


def changes_logits(draw: Draw) -> bool:
    params = draw.params
    return (
        bool(params.logit_bias)
        or params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
        or len(draw.output) < params.min_tokens
    )


@dataclass(frozen=True, slots=True)
class Adjustment:
    ids: Int64Array
    """Those that are touched, rising, each once. The other arrays tell about each of them."""
    params: SamplingParams
    seen: BoolArray
    """In the prompt or the output, where repetition is penalised."""
    counts: Int64Array
    """In the output, where that is penalised."""
    banned: BoolArray

    def apply(self, logits: Float32Array) -> Float32Array:
        """`logits` are those of `ids`; returns what they become."""
        params = self.params
        logits = logits.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            self._add_bias(logits)
            penalty = params.repetition_penalty
            # Every id seen becomes less likely, whatever the sign of its logit.
            repeated = np.where(logits > 0, logits / penalty, logits * penalty)
            logits = np.where(self.seen, repeated, logits)
            of_output = params.presence_penalty + params.frequency_penalty * self.counts
            logits -= np.where(self.counts > 0, of_output, 0.0).astype(np.float32)
        logits[self.banned] = -np.inf
        return logits

    def _add_bias(self, logits: Float32Array) -> None:
        """One after another, should an id have several."""
        for token, bias in self.params.logit_bias:
            place = np.searchsorted(self.ids, token)
            if place < len(self.ids) and self.ids[place] == token:
                logits[place] += np.float32(bias)


def adjustment(draw: Draw, vocab: int, eos_token_ids: Sequence[int]) -> Adjustment:
    params = draw.params
    biased = _known([token for token, _ in params.logit_bias], vocab)
    output = _known(draw.output, vocab)
    seen, counted, banned = output[:0], output[:0], output[:0]
    if params.repetition_penalty != 1.0:
        seen = np.concatenate((_known(draw.prompt, vocab), output))
    if params.presence_penalty != 0.0 or params.frequency_penalty != 0.0:
        counted = output
    if len(draw.output) < params.min_tokens:
        banned = _known((*eos_token_ids, *params.stop_token_ids), vocab)
    touched = np.concatenate((biased, seen, counted, banned))
    ids = np.flatnonzero(_among(touched, vocab))
    return Adjustment(
        ids,
        params,
        seen=_among(seen, vocab)[ids],
        counts=np.bincount(counted, minlength=vocab)[ids],
        banned=_among(banned, vocab)[ids],
    )


def _known(tokens: Sequence[int], vocab: int) -> Int64Array:
    ids = np.asarray(tokens, dtype=np.int64)
    return ids[(ids >= 0) & (ids < vocab)]


def _among(tokens: Int64Array, vocab: int) -> BoolArray:
    """[vocab]"""
    marks = np.zeros(vocab, dtype=np.bool_)
    marks[tokens] = True
    return marks
