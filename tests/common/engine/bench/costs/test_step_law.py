import pytest

from common.engine.bench.costs.step_law import (
    DecodePrices,
    PromptPrices,
    StepLaw,
    decode_shape,
    prompt_shape,
)
from common.engine.step_cost import StepShape

LAW = StepLaw(
    PromptPrices(10.0, 0.1, 0.001),
    DecodePrices(5.0, 1.0, 0.01),
    DecodePrices(3.0, 2.0, 0.02),
    4,
    2.0,
)


def test_prompts_pay_for_tokens_and_pairs() -> None:
    assert LAW.ms(prompt_shape(10)) == pytest.approx(10 + 1 + 0.055)
    assert LAW.ms(prompt_shape(10, 100)) == pytest.approx(10 + 1 + 0.001 * (1000 + 55))


def test_decodes_have_two_prices() -> None:
    assert LAW.ms(decode_shape(4, 50)) == pytest.approx(5 + 4 + 2)
    assert LAW.ms(decode_shape(5, 50)) == pytest.approx(3 + 10 + 5)


def test_a_step_with_both_takes_less_than_two_steps_and_no_less_than_one() -> None:
    both = decode_shape(4, 50).with_chunk(0, 10)
    assert LAW.ms(both) == pytest.approx(11 + 11.055 - 2)
    cheap = StepLaw(LAW.prompts, LAW.few, LAW.many, 4, 1000.0)
    assert cheap.ms(both) == pytest.approx(11.055)


def test_no_step_costs_nothing() -> None:
    assert LAW.ms(StepShape()) == 0.0


def test_prices_of_squares_are_prices_of_pairs() -> None:
    prices = PromptPrices.of_squares(18.1, 0.102, 7.1e-6)
    for tokens in (1, 100, 1000):
        shape = prompt_shape(tokens)
        assert prices.ms(tokens, shape.prefill_pairs) == pytest.approx(
            18.1 + 0.102 * tokens + 7.1e-6 * tokens**2
        )
