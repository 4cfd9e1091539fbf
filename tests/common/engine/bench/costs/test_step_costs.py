import json
from dataclasses import asdict
from pathlib import Path

import pytest

from common.engine.bench.costs.step_costs import (
    ALONE,
    BESIDE_DECODES,
    BESIDE_PROMPTS,
    SCHEMA,
    UnreadableCosts,
    read_costs,
)
from common.engine.bench.costs.step_law import (
    DecodePrices,
    PromptPrices,
    StepLaw,
    decode_shape,
    prompt_shape,
)

LAW = StepLaw(
    PromptPrices(10.0, 0.1, 0.001),
    DecodePrices(5.0, 1.0, 0.01),
    DecodePrices(3.0, 2.0, 0.02),
    4,
    2.0,
)
SLOW = StepLaw(LAW.prompts, DecodePrices(9.0, 1.0, 0.01), LAW.many, 4, 2.0)
OURS = {
    "schema": SCHEMA,
    "machine": {"cores": 2},
    "token_bytes": 23040,
    "outside_ms": {"step_ms": 0.5, "row_ms": 0.1},
    "laws": {ALONE: asdict(LAW), BESIDE_PROMPTS: asdict(SLOW), BESIDE_DECODES: asdict(LAW)},
}
FITS = {
    "decoding_large_small_bs_threshold": 95,
    "prefill": [18.0, 0.1, 7e-06],
    "decoding_smallbs": [20.0, 0.0006, 0.04],
    "decoding_largebs": [7.0, 0.0005, 0.16],
}
PROFILE = {"facebook/opt-13b": {"1": FITS, "2": FITS}, "facebook/opt-66b": {"4": FITS}}


def written(tmp_path: Path, content: object) -> str:
    place = tmp_path / "costs.json"
    place.write_text(json.dumps(content))
    return str(place)


def test_our_file_is_read_and_what_else_stands_there_is_left(tmp_path: Path) -> None:
    costs = read_costs(written(tmp_path, OURS))
    assert (costs.label, costs.token_bytes, costs.cores) == ("costs.json", 23040, 2)
    step = decode_shape(2, 100)
    assert costs.ms(step) == pytest.approx(5 + 2 + 2 + 0.5 + 0.2)
    assert costs.ms(step, BESIDE_PROMPTS) == pytest.approx(costs.ms(step) + 4)


def test_a_profile_of_distserve_is_read(tmp_path: Path) -> None:
    costs = read_costs(written(tmp_path, PROFILE))
    assert costs.label == "costs.json, facebook/opt-13b, 1 GPUs a worker"
    assert costs.ms(prompt_shape(100)) == pytest.approx(18 + 10 + 0.07)
    assert costs.ms(decode_shape(10, 200)) == pytest.approx(20 + 2000 * 0.0006 + 0.4)
    assert costs.ms(decode_shape(100, 200)) == pytest.approx(7 + 20_000 * 0.0005 + 16)
    both = decode_shape(10, 200).with_chunk(0, 100)
    assert costs.ms(both, BESIDE_DECODES) == pytest.approx(28.07 + 21.6 - 18)
    assert costs.token_bytes == 2 * 2 * 40 * 5120
    assert costs.cores == 0


def test_one_of_its_models_can_be_chosen(tmp_path: Path) -> None:
    place = written(tmp_path, PROFILE)
    assert read_costs(f"{place}#facebook/opt-66b@4").label.endswith("opt-66b, 4 GPUs a worker")
    with pytest.raises(UnreadableCosts, match=r"has no facebook/opt-66b@1; it has .*opt-13b@2"):
        read_costs(f"{place}#facebook/opt-66b@1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "neither ours nor a profile"),
        ({}, "a profile of nothing"),
        (OURS | {"schema": 99}, "not of schema 1"),
        (OURS | {"laws": {ALONE: asdict(LAW)}}, "not of schema 1"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(UnreadableCosts, match=message):
        read_costs(written(tmp_path, content))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnreadableCosts, match="No such file"):
        read_costs(str(tmp_path / "none.json"))
