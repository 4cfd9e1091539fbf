from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from common.domain.sampling import SamplingParams
from common.engine.penalties import Float32Array, adjustment, changes_logits
from common.engine.runner import Draw

EOS = (2,)
LOGITS = [1.0, -1.0, 2.0, -2.0, 0.5]
INF = float("inf")


def draw_of(prompt: Sequence[int] = (), output: Sequence[int] = (), **fields: object) -> Draw:
    params = replace(SamplingParams(seed=0, max_tokens=9), **fields)
    return Draw(0, params, 0, list(prompt), list(output))


def adjusted(draw: Draw, logits: Sequence[float] = LOGITS, eos: Sequence[int] = EOS) -> list[float]:
    row: Float32Array = np.array(logits, dtype=np.float32)
    change = adjustment(draw, len(row), eos)
    row[change.ids] = change.apply(row[change.ids])
    return row.tolist()


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
    assert adjusted(draw) == pytest.approx(expected)
    assert changes_logits(draw) or expected == LOGITS


def test_bias_comes_before_repetition_and_repetition_before_presence() -> None:
    draw = draw_of([], [1], logit_bias=((1, 3.0),), repetition_penalty=4.0, presence_penalty=1.0)
    assert adjusted(draw)[1] == pytest.approx((-1.0 + 3.0) / 4.0 - 1.0)


def test_ids_outside_the_vocabulary_change_nothing() -> None:
    draw = draw_of(
        [5, -1],
        [99, -5],
        logit_bias=((5, 1.0), (-1, 1.0)),
        repetition_penalty=2.0,
        frequency_penalty=1.0,
        min_tokens=5,
        stop_token_ids=(77, -2),
    )
    assert adjusted(draw, eos=(5, -1)) == LOGITS


def test_only_the_ids_that_change_are_touched() -> None:
    draw = draw_of(
        [3, 0, 3],
        [4, 9],
        logit_bias=((2, 1.0), (2, 0.5)),
        frequency_penalty=0.5,
        min_tokens=3,
        stop_token_ids=(1,),
    )
    assert adjustment(draw, 9, (7,)).ids.tolist() == [1, 2, 4, 7]
    repeated = draw_of([3, 0, 3], [4, 9], repetition_penalty=1.1)
    assert adjustment(repeated, 9, (7,)).ids.tolist() == [0, 3, 4]


def test_several_biases_of_one_id_add_up() -> None:
    draw = draw_of(logit_bias=((2, 1.0), (0, 3.0), (2, 0.5)))
    assert adjusted(draw) == [4.0, -1.0, 3.5, -2.0, 0.5]


def test_what_is_beyond_float32_becomes_infinite_in_silence() -> None:
    draw = draw_of([0, 1], repetition_penalty=10.0)
    assert adjusted(draw, [-3e38, -INF, 1.0]) == [-INF, -INF, 1.0]


def test_the_logits_given_stay_as_they_were() -> None:
    own: Float32Array = np.array([1.0], dtype=np.float32)
    change = adjustment(draw_of([], [3], presence_penalty=1.0, logit_bias=((3, 2.0),)), 5, EOS)
    assert change.apply(own).tolist() == [2.0]
    assert own.tolist() == [1.0]
