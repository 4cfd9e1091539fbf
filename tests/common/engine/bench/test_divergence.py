import numpy as np
import pytest

from common.engine.bench.divergence import Divergence


def logits_of(rows: int, vocab: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, vocab)).astype(np.float32) * 3


def test_equal_logits_do_not_diverge() -> None:
    sums = Divergence()
    logits = logits_of(130, 11, 0)
    sums.add(logits, logits + 5, [1] * 129)
    result = sums.result()
    assert (result["tokens"], result["same_best"]) == (130, 1.0)
    assert result["kl"] == pytest.approx(0, abs=1e-6)
    assert result["perplexity_change"] == pytest.approx(0, abs=1e-6)


def test_the_sums_are_the_definitions() -> None:
    p, q = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.5, 0.25])
    sums = Divergence()
    sums.add(np.log(p)[None].astype(np.float32), np.log(q)[None].astype(np.float32), [0])
    result = sums.result()
    assert result["kl"] == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2))
    assert result["same_best"] == 0.0
    assert result["reference_perplexity"] == pytest.approx(2)
    assert result["perplexity"] == pytest.approx(4)
    assert result["perplexity_change"] == pytest.approx(1)


def test_any_way_of_cutting_gives_the_same_means() -> None:
    left, right = logits_of(150, 7, 1), logits_of(150, 7, 2)
    following = np.random.default_rng(3).integers(0, 7, 149).tolist()
    whole, parts = Divergence(), Divergence()
    whole.add(left, right, following)
    parts.add(left[:30], right[:30], following[:30])
    parts.add(left[30:], right[30:], following[30:])
    assert parts.result() == pytest.approx(whole.result())
