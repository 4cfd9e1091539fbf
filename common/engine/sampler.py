"""One token for each draw of a batch, in the order that `SamplingParams` fixes.

Tokens are ranked by logit, ties to the lowest id. Greedy takes the first; sampling cuts the ranking
(top_k, top_p, min_p) and takes the token whose share of the kept mass holds the draw's own uniform
number. Ranking a whole vocabulary is slow, and nearly always the decision falls among the most
likely tokens: they are ranked first, and the whole only when they do not settle it. Both ways take
their weights and their total from the same vector, so they agree to the bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from common.domain.sampling import SamplingParams
from common.engine.penalties import adjustment, changes_logits
from common.engine.philox import uniform
from common.engine.runner import Draw, Drawn

Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]

HEAD_TOKENS = 256
"""How many of the most likely tokens are ranked first."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The start of a vocabulary in order of likelihood, or all of it."""

    weights: Float64Array
    """Not normalised, falling, the first is 1."""
    total: float
    """Of the whole vocabulary, summed in the order of ids."""
    vocab: int


def choose(ranking: Ranking, params: SamplingParams, number: float) -> int | None:
    """The rank drawn by `number` in [0, 1); None when the ranking is too short to tell."""
    cumulative = np.cumsum(ranking.weights)
    ranked = len(cumulative)
    kept, mass = ranking.vocab, ranking.total
    if 0 < params.top_k < kept:
        if params.top_k > ranked:
            return None
        kept, mass = params.top_k, float(cumulative[params.top_k - 1])
    kept = min(kept, _cut(ranking, cumulative, params, mass))
    if kept > ranked and (params.top_p < 1.0 or params.min_p > 0.0):
        return None
    if kept < ranking.vocab:
        mass = float(cumulative[kept - 1])
    rank = int(np.searchsorted(cumulative[:kept], number * mass, side="right"))
    if rank < min(kept, ranked):
        return rank
    if kept > ranked:
        return None
    # Only the rounding of a sum leads past everything kept: the last token that can be drawn.
    return max(0, int(np.count_nonzero(ranking.weights[:kept])) - 1)


def _cut(ranking: Ranking, cumulative: Float64Array, params: SamplingParams, mass: float) -> int:
    """How many tokens top_p and min_p keep; the vocabulary when the end is not in the ranking."""
    ends = [ranking.vocab]
    if params.top_p < 1.0:
        reached = int(np.searchsorted(cumulative, params.top_p * mass)) + 1
        ends.append(reached if reached <= len(cumulative) else ranking.vocab)
    if params.min_p > 0.0:
        below = np.flatnonzero(ranking.weights < params.min_p)
        ends.append(max(1, int(below[0])) if len(below) else ranking.vocab)
    return min(ends)


class Sampler:
    def __init__(self, eos_token_ids: Sequence[int], head_tokens: int = HEAD_TOKENS) -> None:
        self._eos_token_ids = tuple(eos_token_ids)
        self._head_tokens = head_tokens

    def draw(self, logits: Tensor, draws: Sequence[Draw]) -> list[Drawn]:
        """`logits` is [rows, vocab] float32, `draws` name its rows; one token for each draw."""
        tokens = self._tokens(logits, draws)
        drawn = [Drawn(token) for token in tokens]
        wanted = [i for i, draw in enumerate(draws) if draw.params.logprobs is not None]
        if wanted:
            rows = logits[[draws[i].row for i in wanted]]
            described = self._describe(
                rows, [draws[i] for i in wanted], [tokens[i] for i in wanted]
            )
            for index, one in zip(wanted, described, strict=True):
                drawn[index] = one
        return drawn

    def _tokens(self, logits: Tensor, draws: Sequence[Draw]) -> list[int]:
        tokens = [0] * len(draws)
        plain = [
            i for i, d in enumerate(draws) if d.params.temperature == 0 and not changes_logits(d)
        ]
        if plain:
            best = logits.argmax(dim=-1).tolist()
            for i in plain:
                tokens[i] = best[draws[i].row]
        plain_set = frozenset(plain)
        others = [i for i in range(len(draws)) if i not in plain_set]
        if others:
            scores = logits[[draws[i].row for i in others]]
            chosen = self._choose(scores, [draws[i] for i in others])
            for i, token in zip(others, chosen, strict=True):
                tokens[i] = token
        return tokens

    def _choose(self, scores: Tensor, draws: Sequence[Draw]) -> list[int]:
        """`scores` has a row of its own for each draw, and is changed."""
        for row, draw in zip(scores, draws, strict=True):
            if changes_logits(draw):
                self._adjust(row, draw)
        greedy = [i for i, draw in enumerate(draws) if draw.params.temperature == 0]
        sampled = [i for i, draw in enumerate(draws) if draw.params.temperature > 0]
        tokens = [0] * len(draws)
        for i, token in zip(greedy, scores[greedy].argmax(dim=-1).tolist(), strict=True):
            tokens[i] = token
        if sampled:
            chosen = self._sample(scores[sampled], [draws[i] for i in sampled])
            for i, token in zip(sampled, chosen, strict=True):
                tokens[i] = token
        return tokens

    def _adjust(self, row: Tensor, draw: Draw) -> None:
        change = adjustment(draw, len(row), self._eos_token_ids)
        ids = torch.from_numpy(change.ids).to(row.device)
        changed = change.apply(row[ids].cpu().numpy())
        row[ids] = torch.from_numpy(changed).to(row.device)

    def _sample(self, scores: Tensor, draws: Sequence[Draw]) -> list[int]:
        temperatures = scores.new_tensor(
            [[d.params.temperature] for d in draws], dtype=torch.float64
        )
        exact = scores.double()
        weights = ((exact - exact.amax(dim=-1, keepdim=True)) / temperatures).exp_()
        totals: list[float] = weights.sum(dim=-1).tolist()
        tokens = []
        for index, (draw, ranked) in enumerate(zip(draws, self._rank(scores), strict=True)):
            number = uniform(draw.params.seed, draw.choice, len(draw.output))
            rank = self._choose_rank(weights[index], ranked, totals[index], draw.params, number)
            if rank is None:
                ranked = _rank_all(scores[index])
                rank = self._choose_rank(weights[index], ranked, totals[index], draw.params, number)
            tokens.append(int(ranked[rank or 0]))
        return tokens

    def _choose_rank(
        self,
        weights: Tensor,
        ranked: Int64Array,
        total: float,
        params: SamplingParams,
        number: float,
    ) -> int | None:
        ids = torch.from_numpy(ranked).to(weights.device)
        falling = weights[ids].cpu().numpy()
        return choose(Ranking(falling, total, len(weights)), params, number)

    def _rank(self, scores: Tensor) -> list[Int64Array]:
        """Per row, the ids of the most likely tokens in order: as many as are certain."""
        count = min(self._head_tokens, scores.shape[-1])
        top = scores.topk(count, dim=-1)
        values, ids = top.values.cpu().numpy(), top.indices.cpu().numpy()
        complete = count == scores.shape[-1]
        return [_rank_head(v, i, complete=complete) for v, i in zip(values, ids, strict=True)]

    def _describe(
        self, logits: Tensor, draws: Sequence[Draw], tokens: Sequence[int]
    ) -> list[Drawn]:
        logprobs = logits.float().log_softmax(dim=-1)
        described = []
        for index, (draw, ranked) in enumerate(zip(draws, self._rank(logits), strict=True)):
            count = min(draw.params.logprobs or 0, logits.shape[-1])
            if len(ranked) < count:
                ranked = _rank_all(logits[index])
            ids = [tokens[index], *ranked[:count].tolist()]
            values = logprobs[index, ids].tolist()
            top = tuple(zip(ids[1:], values[1:], strict=True))
            described.append(Drawn(tokens[index], values[0], top))
        return described


def _rank_head(values: npt.NDArray[np.float32], ids: Int64Array, *, complete: bool) -> Int64Array:
    """Equal logits come out of a partial sort in any order, and at its border some are left out: so
    order them by id, and drop those at the border."""
    order = np.lexsort((ids, -values))
    if not complete:
        order = order[values[order] > values.min()]
    return ids[order]


def _rank_all(scores: Tensor) -> Int64Array:
    """A logit's bits, turned so that they rise as it falls, with its id below them: keys that are
    all different, so any sort will do, and that of integers is several times faster."""
    bits = (scores.cpu().numpy() + np.float32(0.0)).view(np.uint32)
    falling = np.where(bits >> 31, bits, bits ^ np.uint32(0x7FFFFFFF)).astype(np.uint64)
    keys = falling << np.uint64(32) | np.arange(len(bits), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
