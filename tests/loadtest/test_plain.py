"""Whatever a run holds becomes JSON that any reader understands."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from loadtest.metrics import Targets, distribution
from loadtest.plain import plain
from loadtest.record import Outcome
from loadtest.scenario import Claim


def test_no_number_that_json_does_not_know_gets_through() -> None:
    found = plain({"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": np.float64("nan")})
    assert found == {"a": None, "b": [None, None, 1.5], "c": None}


def test_a_dataclass_gives_what_it_computes_too() -> None:
    found = plain(distribution([1.0, 3.0]))
    assert isinstance(found, dict)
    assert found["p50"] == 2
    assert found["p99_is_firm"] is False
    assert plain(Targets(ttft_ms=5)) == {"ttft_ms": 5, "tpot_ms": 0, "e2e_ms": 0, "any": True}


def test_what_is_private_stays_private() -> None:
    @dataclass
    class Shy:
        shown: int = 1

        @property
        def _hidden(self) -> int:
            raise AssertionError

    assert plain(Shy()) == {"shown": 1}


def test_enums_models_numpy_and_tuples_are_what_they_stand_for() -> None:
    assert plain((Outcome.CUT, np.int64(3), {Outcome.LEFT: True})) == ["cut", 3, {"left": True}]
    claim = plain(Claim(text="t", measure="m", side="a", against="b", at_most=0.5))
    assert isinstance(claim, dict)
    assert claim["at_most"] == 0.5
    assert claim["at_least"] is None


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no form"):
        plain({"a": object()})
