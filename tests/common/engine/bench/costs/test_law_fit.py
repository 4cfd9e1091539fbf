from random import Random

import pytest

from common.engine.bench.costs.law_fit import Sample, fit_law, missed
from common.engine.bench.costs.step_law import DecodePrices, PromptPrices, StepLaw
from common.engine.bench.costs.steps import FITTED, JUDGED

LAW = StepLaw(
    PromptPrices(10.0, 0.2, 1e-4),
    DecodePrices(12.0, 0.1, 3e-3),
    DecodePrices(6.0, 0.6, 3e-3),
    16,
    8.0,
)


def samples(law: StepLaw, noise: float = 0.0) -> list[Sample]:
    random = Random(0)
    return [
        Sample(step.shape, law.ms(step.shape) * (1 + random.uniform(-noise, noise)))
        for step in FITTED
    ]


def test_a_law_is_found_again_with_its_threshold() -> None:
    found = fit_law(samples(LAW))
    assert found.few_rows == LAW.few_rows
    for made, expected in (
        (found.prompts, LAW.prompts),
        (found.few, LAW.few),
        (found.many, LAW.many),
    ):
        for name in expected.__slots__:
            assert getattr(made, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    assert found.joined_ms == pytest.approx(LAW.joined_ms)


def test_noise_moves_predictions_little() -> None:
    found = fit_law(samples(LAW, noise=0.05))
    errors = missed(found, [Sample(step.shape, LAW.ms(step.shape)) for step in JUDGED])
    assert errors.keys() == {"prompts", "decodes", "mixed"}
    assert all(error.median < 0.03 for error in errors.values())


def test_no_price_is_negative() -> None:
    shrinking = StepLaw(PromptPrices(30.0, -0.01, 1e-4), LAW.few, LAW.many, 16, 8.0)
    found = fit_law(samples(shrinking))
    assert found.prompts.token_ms == 0.0
    assert found.prompts.pair_ms > 0.0


def test_what_is_missed_is_relative_and_by_kind() -> None:
    made = [
        Sample(step.shape, LAW.ms(step.shape) / factor)
        for step, factor in zip(JUDGED[:2], (1.1, 0.8), strict=True)
    ]
    found = missed(LAW, made)["prompts"]
    assert found.steps == 2
    assert (found.median, found.p90) == (pytest.approx(0.15), pytest.approx(0.19))


def test_every_kind_of_step_is_needed() -> None:
    prompts = [sample for sample in samples(LAW) if sample.kind == "prompts"]
    with pytest.raises(ValueError, match="and with both"):
        fit_law(prompts)
