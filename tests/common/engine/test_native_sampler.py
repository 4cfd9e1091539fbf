"""Native draws against those of the torch sampler: the same rules, weights that differ in the fifth
digit, so the same tokens unless a random number falls that near to a border."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch

from common.domain.sampling import SamplingParams
from common.engine.native_sampler import NativeSampler, describe, draw_params, most_likely
from common.engine.runner import Draw, Drawn
from common.engine.sampler import Sampler
from tests.support.native_draws import NativeDraws

EOS = (2,)
VOCAB = 600
PARAMS = SamplingParams(seed=11, max_tokens=9)
GREEDY = replace(PARAMS, temperature=0.0)
INF = float("inf")
NAN = float("nan")

Float32Array = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> NativeSampler:
    return NativeSampler(NativeDraws(tmp_path_factory.mktemp("unit"), "avx2"), EOS)


def draw_of(params: SamplingParams, row: int = 0, choice: int = 0, position: int = 0) -> Draw:
    return Draw(row, params, choice, [1, 2, 3], [4] * position)


def logits_of(rows: int = 1, seed: int = 0) -> Float32Array:
    values = np.random.default_rng(seed).standard_normal((rows, VOCAB)) * 2
    return values.astype(np.float32)


VARIANTS = [
    GREEDY,
    PARAMS,
    replace(PARAMS, seed=2**64 - 1, temperature=0.7, top_p=0.9),
    replace(PARAMS, top_k=20),
    replace(PARAMS, min_p=0.05, temperature=1.5),
    replace(GREEDY, repetition_penalty=1.3),
    replace(PARAMS, presence_penalty=1.0, frequency_penalty=0.7),
    replace(GREEDY, logit_bias=((5, 100.0),)),
    replace(PARAMS, min_tokens=3, stop_token_ids=(7,)),
    replace(PARAMS, top_p=0.5, logprobs=3),
    replace(GREEDY, logprobs=0, logit_bias=((17, 100.0),)),
]


def test_a_mixed_batch_gets_the_tokens_that_torch_draws(sampler: NativeSampler) -> None:
    logits = logits_of(rows=3)
    draws = [
        draw_of(params, row=(i + position) % 3, choice=position % 2, position=position)
        for position in range(12)
        for i, params in enumerate(VARIANTS)
    ]
    drawn = [sampler.draw(logits[draw.row], draw) for draw in draws]
    expected = Sampler(EOS).draw(torch.from_numpy(logits), draws)
    assert [one.token for one in drawn] == [one.token for one in expected]
    assert len({one.token for one in drawn}) > 30
    for one, other in zip(drawn, expected, strict=True):
        assert one.logprob == (None if other.logprob is None else pytest.approx(other.logprob))
        assert [token for token, _ in one.top] == [token for token, _ in other.top]
        assert [p for _, p in one.top] == pytest.approx([p for _, p in other.top])


def test_drawing_leaves_the_logits_as_they_were(sampler: NativeSampler) -> None:
    logits = logits_of(rows=2)
    before = logits.tobytes()
    for i, params in enumerate(VARIANTS):
        sampler.draw(logits[i % 2], draw_of(params, position=2))
    assert logits.tobytes() == before


def test_draws_of_one_row_do_not_see_each_others_changes(sampler: NativeSampler) -> None:
    logits = logits_of()
    biased = replace(GREEDY, logit_bias=((5, 100.0),))
    drawn = [sampler.draw(logits[0], draw_of(params)).token for params in (biased, GREEDY, biased)]
    assert drawn == [5, int(logits[0].argmax()), 5]


def test_every_field_is_handed_over() -> None:
    params = replace(PARAMS, temperature=0.5, top_p=0.25, min_p=0.125, top_k=40, seed=2**64 - 2)
    handed = draw_params(draw_of(params, choice=3, position=6))
    fields = {name: getattr(handed, name) for name, _ in handed._fields_}
    assert fields == {
        "temperature": 0.5,
        "top_p": 0.25,
        "min_p": 0.125,
        "seed": 2**64 - 2,
        "position": 6,
        "choice": 3,
        "top_k": 40,
    }


def test_the_most_likely_come_by_logit_then_by_id() -> None:
    row = np.array([1.0, 3.0, -INF, 3.0, NAN, 1.0, 1.0], dtype=np.float32)
    for count in range(7):
        assert most_likely(row, count).tolist() == [1, 3, 0, 5, 6, 2][:count]
    assert most_likely(np.zeros(50, dtype=np.float32), 4).tolist() == [0, 1, 2, 3]


def test_log_probabilities_sum_to_one() -> None:
    row = logits_of()[0] * 5
    drawn = describe(row, 7, VOCAB + 10)
    assert len(drawn.top) == VOCAB
    assert np.exp([logprob for _, logprob in drawn.top]).sum() == pytest.approx(1.0, abs=1e-6)
    assert dict(drawn.top)[7] == drawn.logprob


def test_log_probabilities_of_a_row_with_holes() -> None:
    row = np.array([NAN, 0.0, 0.0, -INF], dtype=np.float32)
    half = pytest.approx(np.log(0.5))
    assert describe(row, 1, 3) == Drawn(1, half, ((1, half), (2, half), (3, -INF)))
    for nothing in (NAN, -INF):
        row = np.full(3, nothing, dtype=np.float32)
        assert describe(row, 0, 1) == Drawn(0, -INF, ((0, -INF),))
