from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from common.domain.sampling import SamplingParams
from common.engine.penalties import adjust, changes_logits
from common.engine.runner import Draw

EOS = (2,)
LOGITS = [1.0, -1.0, 2.0, -2.0, 0.5]
INF = float("inf")


def draw_of(prompt: Sequence[int] = (), output: Sequence[int] = (), **fields: object) -> Draw:
    params = replace(SamplingParams(seed=0, max_tokens=9), **fields)
    return Draw(0, params, 0, list(prompt), list(output))


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (draw_of([0], [1]), LOGITS),
        (draw_of(logit_bias=((0, 5.0), (3, -100.0))), [6.0, -1.0, 2.0, -102.0, 0.5]),
        (draw_of([0, 0], [3], repetition_penalty=2.0), [0.5, -1.0, 2.0, -4.0, 0.5]),
        (draw_of([0], [1, 1, 4], presence_penalty=0.5), [1.0, -1.5, 2.0, -2.0, 0.0]),
        (draw_of([0], [1, 1, 4], frequency_penalty=0.5), [1.0, -2.0, 2.0, -2.0, 0.0]),
        (draw_of([], [4], presence_penalty=0.5, frequency_penalty=0.25), [*LOGITS[:4], -0.25]),
        (draw_of([], [0], min_tokens=2), [1.0, -1.0, -INF, -2.0, 0.5]),
        (draw_of([], [0, 0], min_tokens=2), LOGITS),
        (draw_of(min_tokens=1, stop_token_ids=(0,)), [-INF, -1.0, -INF, -2.0, 0.5]),
        (draw_of(min_tokens=1, ignore_eos=True), [1.0, -1.0, -INF, -2.0, 0.5]),
    ],
)
def test_parameters_change_the_logits_of_the_ids_they_name(
    draw: Draw, expected: list[float]
) -> None:
    row = torch.tensor(LOGITS)
    adjust(row, draw, EOS)
    assert row.tolist() == pytest.approx(expected)
    assert changes_logits(draw) or expected == LOGITS


def test_bias_comes_before_repetition_and_repetition_before_presence() -> None:
    row = torch.tensor(LOGITS)
    draw = draw_of([], [1], logit_bias=((1, 3.0),), repetition_penalty=4.0, presence_penalty=1.0)
    adjust(row, draw, EOS)
    assert row[1].item() == pytest.approx((-1.0 + 3.0) / 4.0 - 1.0)


def test_ids_outside_the_vocabulary_change_nothing() -> None:
    row = torch.tensor(LOGITS)
    draw = draw_of(
        [5, -1],
        [99, -5],
        logit_bias=((5, 1.0), (-1, 1.0)),
        repetition_penalty=2.0,
        frequency_penalty=1.0,
        min_tokens=5,
        stop_token_ids=(77, -2),
    )
    adjust(row, draw, (5, -1))
    assert row.tolist() == LOGITS
