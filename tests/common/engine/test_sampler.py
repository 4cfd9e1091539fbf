"""Drawing against a plain rendering of the rules: sort everything, cut, walk the sums."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.sampling import SamplingParams
from common.engine.philox import uniform
from common.engine.runner import Draw
from common.engine.sampler import Ranking, Sampler, choose

EOS = (2,)
VOCAB = 600
PARAMS = SamplingParams(seed=11, max_tokens=9)
GREEDY = replace(PARAMS, temperature=0.0)


def draw_of(params: SamplingParams, row: int = 0, choice: int = 0, position: int = 0) -> Draw:
    return Draw(row, params, choice, [1, 2, 3], [4] * position)


def logits_of(rows: int = 1, spread: float = 2.0, seed: int = 0) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal((rows, VOCAB)) * spread
    return torch.tensor(values, dtype=torch.float32)


def tokens(logits: torch.Tensor, *draws: Draw, head_tokens: int = 256) -> list[int]:
    return [drawn.token for drawn in Sampler(EOS, head_tokens).draw(logits, draws)]


def by_the_rules(row: torch.Tensor, params: SamplingParams, number: float) -> int:
    order = sorted(range(len(row)), key=lambda token: (-row[token].item(), token))
    peak = row.max().item()
    weights = {t: float(np.exp((row[t].item() - peak) / params.temperature)) for t in order}
    if params.top_k:
        order = order[: params.top_k]
    mass, kept = sum(weights[token] for token in order), 0.0
    for count, token in enumerate(order, start=1):
        kept += weights[token]
        if params.top_p < 1 and kept >= params.top_p * mass:
            order = order[:count]
            break
    order = [token for token in order if weights[token] >= params.min_p]
    target, walked = number * sum(weights[token] for token in order), 0.0
    for token in order:
        walked += weights[token]
        if walked > target:
            return token
    raise AssertionError("the number lies past all mass")


CUTS = [
    {},
    {"temperature": 0.3},
    {"temperature": 3.0},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": 400},
    {"top_k": 10_000},
    {"top_p": 0.5},
    {"top_p": 0.999},
    {"top_p": 0.0},
    {"min_p": 0.2},
    {"min_p": 1e-9},
    {"min_p": 1.0},
    {"top_k": 50, "top_p": 0.7, "min_p": 0.05, "temperature": 1.4},
]


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_draw_follows_the_rules(cut: dict[str, float]) -> None:
    params = replace(PARAMS, **cut)
    logits = logits_of()
    for position in range(40):
        number = uniform(params.seed, 0, position)
        expected = by_the_rules(logits[0], params, number)
        assert tokens(logits, draw_of(params, position=position)) == [expected]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    steps=st.integers(1, 60),
    spread=st.sampled_from([0.1, 1.0, 5.0]),
    temperature=st.sampled_from([0.05, 0.7, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 7, 8, 9, 100, 599, 600]),
    top_p=st.sampled_from([0.0, 0.3, 0.95, 0.999999, 1.0]),
    min_p=st.sampled_from([0.0, 1e-6, 0.05, 1.0]),
)
def test_ranking_a_few_tokens_first_never_changes_the_draw(
    seed: int,
    steps: int,
    spread: float,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
) -> None:
    """Logits on few distinct levels, so that ties stand at every border."""
    levels = np.random.default_rng(seed % 1000).integers(0, steps, (1, VOCAB)) / steps * spread
    logits = torch.tensor(levels, dtype=torch.float32)
    params = replace(
        PARAMS, seed=seed, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p
    )
    drawn = [tokens(logits, draw_of(params), head_tokens=head) for head in (1, 8, 256, VOCAB)]
    assert len({one[0] for one in drawn}) == 1


def test_greedy_takes_the_lowest_of_equal_logits() -> None:
    logits = torch.zeros(2, VOCAB)
    logits[0, [7, 300, 301]] = 1.0
    logits[1, [400, 9]] = 1.0
    assert tokens(logits, draw_of(GREEDY, 0), draw_of(GREEDY, 1)) == [7, 9]


def test_equal_logits_are_ranked_by_id() -> None:
    logits = torch.zeros(1, VOCAB)
    params = replace(PARAMS, top_k=3)
    drawn = {tokens(logits, draw_of(params, position=position))[0] for position in range(60)}
    assert drawn == {0, 1, 2}


def test_every_draw_of_a_mixed_batch_is_what_it_would_be_alone() -> None:
    logits = logits_of(rows=3)
    variants = [
        GREEDY,
        PARAMS,
        replace(GREEDY, repetition_penalty=1.3),
        replace(PARAMS, top_p=0.9, frequency_penalty=0.7),
        replace(GREEDY, logit_bias=((5, 100.0),)),
        replace(PARAMS, logprobs=2),
    ]
    draws = [draw_of(params, row=i % 3, position=i) for i, params in enumerate(variants)]
    together = Sampler(EOS).draw(logits, draws)
    alone = [
        Sampler(EOS).draw(logits[draw.row : draw.row + 1], [replace(draw, row=0)])[0]
        for draw in draws
    ]
    assert together == alone
    assert together[4].token == 5


def test_choices_of_one_row_differ_and_a_seed_repeats_them() -> None:
    logits = logits_of()
    draws = [draw_of(PARAMS, choice=choice) for choice in range(8)]
    first = tokens(logits, *draws)
    assert len(set(first)) > 3
    assert tokens(logits, *reversed(draws)) == first[::-1]
    other = [replace(draw, params=replace(PARAMS, seed=12)) for draw in draws]
    assert tokens(logits, *other) != first


def test_positions_of_one_choice_draw_different_numbers() -> None:
    drawn = {tokens(logits_of(), draw_of(PARAMS, position=i))[0] for i in range(20)}
    assert len(drawn) > 5


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.full((1, VOCAB), -30.0)
    logits[0, [10, 20, 30]] = torch.tensor([0.5, 0.3, 0.2]).log()
    count = Counter(tokens(logits, *(draw_of(replace(PARAMS, seed=seed)) for seed in range(3000))))
    for token, share in ((10, 0.5), (20, 0.3), (30, 0.2)):
        assert count[token] / 3000 == pytest.approx(share, abs=0.035)


def test_end_tokens_are_not_drawn_before_min_tokens() -> None:
    logits = logits_of()
    logits[0, 2] = 50.0
    logits[0, 77] = 49.0
    for params in (GREEDY, PARAMS):
        early = replace(params, min_tokens=3, stop_token_ids=(77,))
        assert not {2, 77} & set(tokens(logits, draw_of(early, position=2)))
        assert tokens(logits, draw_of(early, position=3)) == [2]


def test_a_row_with_everything_banned_still_gives_a_token_of_the_vocabulary() -> None:
    params = replace(PARAMS, min_tokens=1, stop_token_ids=tuple(range(VOCAB)))
    for one in (params, replace(params, temperature=0.0), replace(params, top_p=0.5)):
        assert 0 <= tokens(logits_of(), draw_of(one))[0] < VOCAB


def test_drawing_leaves_the_logits_as_they_were() -> None:
    logits = logits_of()
    before = logits.clone()
    tokens(logits, draw_of(replace(GREEDY, logit_bias=((1, 5.0),), repetition_penalty=2.0)))
    assert torch.equal(logits, before)


def test_log_probabilities_are_the_models_own() -> None:
    logits = logits_of()
    params = replace(GREEDY, logprobs=3, logit_bias=((17, 100.0),), temperature=0.0)
    drawn = Sampler(EOS).draw(logits, [draw_of(params)])[0]
    expected = torch.log_softmax(logits[0], dim=0)
    best = expected.topk(3)
    assert drawn.token == 17
    assert drawn.logprob == pytest.approx(expected[17].item())
    assert [token for token, _ in drawn.top] == best.indices.tolist()
    assert [value for _, value in drawn.top] == pytest.approx(best.values.tolist())


def test_log_probabilities_are_given_only_to_who_asked() -> None:
    none, chosen = Sampler(EOS).draw(
        logits_of(), [draw_of(GREEDY), draw_of(replace(GREEDY, logprobs=0))]
    )
    assert (none.logprob, none.top) == (None, ())
    assert chosen.logprob is not None
    assert chosen.top == ()


def test_top_tokens_with_equal_logits_come_by_id() -> None:
    logits = torch.zeros(1, VOCAB)
    drawn = Sampler(EOS).draw(logits, [draw_of(replace(GREEDY, logprobs=5))])[0]
    assert [token for token, _ in drawn.top] == [0, 1, 2, 3, 4]


def test_rounding_past_the_end_gives_the_last_token_that_has_weight() -> None:
    weights = np.array([1.0, 0.5, 0.0])
    ranking = Ranking(weights, total=1.5000001, vocab=3)
    assert choose(ranking, PARAMS, number=1.0 - 2.0**-53) == 1


def test_a_ranking_too_short_to_tell_says_so() -> None:
    ranking = Ranking(np.array([1.0, 0.5]), total=4.0, vocab=10)
    assert choose(ranking, PARAMS, number=0.3) == 1
    assert choose(ranking, PARAMS, number=0.4) is None
    assert choose(ranking, replace(PARAMS, top_p=0.5), number=0.0) is None
    assert choose(ranking, replace(PARAMS, top_p=0.3), number=0.9) == 1
    assert choose(ranking, replace(PARAMS, top_k=3), number=0.0) is None
    assert choose(ranking, replace(PARAMS, min_p=0.1), number=0.0) is None
    assert choose(ranking, replace(PARAMS, min_p=0.1, top_k=2), number=0.9) == 1


def test_a_number_on_the_border_of_two_tokens_draws_the_second() -> None:
    ranking = Ranking(np.array([1.0, 1.0]), total=2.0, vocab=2)
    below = np.nextafter(0.5, 0.0)
    assert [choose(ranking, PARAMS, number) for number in (0.0, below, 0.5)] == [0, 0, 1]


def test_the_whole_ranking_orders_every_kind_of_logit() -> None:
    row = logits_of()[0]
    row[[3, 5, 8, 13, 21, 34]] = torch.tensor([0.0, -0.0, np.inf, -np.inf, -np.inf, 1e-40])
    expected = sorted(range(VOCAB), key=lambda token: (-row[token].item(), token))
    drawn = Sampler(EOS).draw(row[None], [draw_of(replace(GREEDY, logprobs=VOCAB))])[0]
    assert [token for token, _ in drawn.top] == expected
