"""What a request's parameters do to a row of logits before a token is chosen from it.

The order is fixed by `SamplingParams`: bias, repetition, presence and frequency, ban of end tokens.
Ids outside the vocabulary change nothing.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from common.domain.sampling import SamplingParams
from common.engine.runner import Draw

Int64Array = npt.NDArray[np.int64]


def changes_logits(draw: Draw) -> bool:
    params = draw.params
    return (
        bool(params.logit_bias)
        or params.repetition_penalty != 1.0
        or params.presence_penalty != 0.0
        or params.frequency_penalty != 0.0
        or len(draw.output) < params.min_tokens
    )


def adjust(row: Tensor, draw: Draw, eos_token_ids: Sequence[int]) -> None:
    """Change one row [vocab] in place."""
    params = draw.params
    _add_bias(row, params)
    _penalize_repetition(row, draw)
    _penalize_output(row, draw)
    if len(draw.output) < params.min_tokens:
        _ban(row, (*eos_token_ids, *params.stop_token_ids))


def _add_bias(row: Tensor, params: SamplingParams) -> None:
    known = [(token, bias) for token, bias in params.logit_bias if 0 <= token < len(row)]
    if known:
        ids, biases = zip(*known, strict=True)
        index = torch.tensor(ids, device=row.device)
        row.index_add_(0, index, torch.tensor(biases, dtype=row.dtype, device=row.device))


def _penalize_repetition(row: Tensor, draw: Draw) -> None:
    """Every id seen, in the prompt too, becomes less likely whatever the sign of its logit."""
    penalty = draw.params.repetition_penalty
    if penalty == 1.0:
        return
    seen = _known(np.union1d(_ids(draw.prompt), _ids(draw.output)), row)
    logits = row[seen]
    row[seen] = torch.where(logits > 0, logits / penalty, logits * penalty)


def _penalize_output(row: Tensor, draw: Draw) -> None:
    presence, frequency = draw.params.presence_penalty, draw.params.frequency_penalty
    if not draw.output or (presence == 0.0 and frequency == 0.0):
        return
    output = _ids(draw.output)
    ids, counts = np.unique(output[(output >= 0) & (output < len(row))], return_counts=True)
    penalty = torch.tensor(presence + frequency * counts, dtype=row.dtype, device=row.device)
    row[_known(ids, row)] -= penalty


def _ban(row: Tensor, tokens: Sequence[int]) -> None:
    row[_known(_ids(tokens), row)] = -torch.inf


def _ids(tokens: Sequence[int]) -> Int64Array:
    return np.asarray(tokens, dtype=np.int64)


def _known(ids: Int64Array, row: Tensor) -> Tensor:
    return torch.tensor(ids[(ids >= 0) & (ids < len(row))], device=row.device)
