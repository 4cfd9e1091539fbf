"""Native draws against their definition: rank the whole vocabulary, cut, walk the sums.

The definition takes from the kernels nothing but 2^x in float32, which has a test of its own.
"""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from common.engine.native_sampler import DrawParams
from common.engine.philox import uniform
from tests.support.native_draws import Float32Array, NativeDraws

Float64Array = npt.NDArray[np.float64]

LOG2_E = 1.4426950408889634
UNIT = 2.0**34
INF = float("inf")
NAN = float("nan")


@pytest.fixture(scope="module", params=["avx2", "avx512"])
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NativeDraws:
    return NativeDraws(tmp_path_factory.mktemp("unit"), request.param)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[NativeDraws, NativeDraws]:
    folder = tmp_path_factory.mktemp("both")
    return NativeDraws(folder, "avx2"), NativeDraws(folder, "avx512")


def params_of(**fields: float) -> DrawParams:
    given = {"temperature": 1.0, "top_p": 1.0, "min_p": 0.0, "seed": 5} | fields
    return DrawParams(**given)


def weights_of(native: NativeDraws, logits: Float32Array, temperature: float) -> Float64Array:
    slope = np.float32(min(LOG2_E / temperature, np.finfo(np.float32).max))
    with np.errstate(all="ignore"):
        exponents = (logits - logits.max()) * slope
        return np.rint(native.exp2(exponents) * np.float32(UNIT)).astype(np.float64)


def by_the_rules(native: NativeDraws, logits: Float32Array, params: DrawParams) -> int:
    logits = np.where(np.isnan(logits), np.float32(-INF), logits)
    ranking = np.lexsort((np.arange(len(logits)), -logits))
    if params.temperature == 0 or not np.isfinite(logits.max()):
        return int(ranking[0])
    weights = weights_of(native, logits, params.temperature)
    if 0 < params.top_k < len(ranking):
        ranking = ranking[: params.top_k]
    masses = np.cumsum(weights[ranking])
    end = len(ranking)
    if params.top_p < 1:
        end = min(end, int(np.argmax(masses >= params.top_p * masses[-1])) + 1)
    below = np.flatnonzero(weights[ranking] < params.min_p * UNIT)
    if len(below):
        end = min(end, max(1, int(below[0])))
    target = uniform(params.seed, params.choice, params.position) * masses[end - 1]
    return int(ranking[np.argmax(masses > target)])


@st.composite
def rows(draw: st.DrawFn) -> Float32Array:
    """A whole row from a seed, so that it may be long: ties, flat, peaked, with holes."""
    size = draw(st.integers(1, 80) | st.integers(1, 3000))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    logits = rng.standard_normal(size) * draw(st.sampled_from([1e-6, 0.05, 1, 3, 20, 1e4]))
    levels = draw(st.sampled_from([0, 1, 2, 7]))
    if levels:
        logits = np.rint(logits * levels) / levels
    if draw(st.booleans()):
        logits[rng.integers(0, size, draw(st.integers(1, 5)))] += 15
    for hole in draw(st.sets(st.sampled_from([-INF, NAN]))):
        logits[rng.random(size) < draw(st.sampled_from([0.02, 0.5, 0.99]))] = hole
    return logits.astype(np.float32)


ANY_ROW = rows() | arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32))
CUTS = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 1e-320, 0.01, 0.3, 0.8, 1.0, 2.0, 1e9]),
        "top_k": st.sampled_from([0, 0, 1, 2, 15, 16, 17, 50, 500, 10_000]),
        "top_p": st.sampled_from([1.0, 1.0, 0.0, 0.5, 0.95, 0.9999999]),
        "min_p": st.sampled_from([0.0, 0.0, 1e-11, 1e-3, 0.1, 1.0]),
        "seed": st.integers(0, 2**64 - 1),
        "choice": st.integers(0, 127),
        "position": st.integers(0, 2**40),
    }
)


@settings(max_examples=400, deadline=None)
@given(logits=ANY_ROW, fields=CUTS)
def test_a_draw_is_what_a_full_sort_would_give(
    native: NativeDraws, logits: Float32Array, fields: dict[str, float]
) -> None:
    params = params_of(**fields)
    assert native.draw(logits, params) == by_the_rules(native, logits, params)


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    "cut", [{}, {"top_p": 0.95}, {"top_k": 64}, {"min_p": 0.02}, {"temperature": 0.8}], ids=str
)
def test_a_vocabulary_of_a_models_size_is_drawn_from_alike(
    native: NativeDraws, spread: float, cut: dict[str, float]
) -> None:
    logits = (np.random.default_rng(7).standard_normal(49_157) * spread).astype(np.float32)
    for position in range(3):
        params = params_of(position=position, **cut)
        assert native.draw(logits, params) == by_the_rules(native, logits, params)


@settings(max_examples=200, deadline=None)
@given(logits=ANY_ROW, temperature=st.sampled_from([0.05, 0.7, 1.0, 5.0]))
def test_both_widths_weigh_alike_to_the_bit(
    both: tuple[NativeDraws, NativeDraws], logits: Float32Array, temperature: float
) -> None:
    narrow, wide = both
    exponents = -np.abs(logits)
    assert narrow.exp2(exponents).tobytes() == wide.exp2(exponents).tobytes()
    totals = [native.total(logits, temperature) for native in both]
    assert totals[0] == totals[1]


@settings(max_examples=200, deadline=None)
@given(logits=ANY_ROW, fields=CUTS)
def test_both_widths_draw_alike(
    both: tuple[NativeDraws, NativeDraws], logits: Float32Array, fields: dict[str, float]
) -> None:
    narrow, wide = both
    assert narrow.draw(logits, params_of(**fields)) == wide.draw(logits, params_of(**fields))


def test_tokens_at_every_floor_of_the_ranking_are_drawn(native: NativeDraws) -> None:
    """At this temperature the exponents are the logits."""
    exponents = np.repeat(np.arange(0, -12, -1), 2 ** np.arange(12))
    logits = np.random.default_rng(2).permutation(exponents).astype(np.float32)
    drawn = set()
    for position in range(300):
        params = params_of(temperature=LOG2_E, position=position)
        token = native.draw(logits, params)
        assert token == by_the_rules(native, logits, params)
        drawn.add(int(logits[token]))
    assert drawn == set(range(0, -12, -1))


def test_the_least_weight_is_drawn_when_its_turn_comes(native: NativeDraws) -> None:
    logits = np.full(301, -34.75, dtype=np.float32)
    logits[9] = 0.0
    params = params_of(temperature=LOG2_E, seed=5, position=100_068_285)
    assert 1 - uniform(5, 0, 100_068_285) < 2.0**-26
    token = native.draw(logits, params)
    assert token == by_the_rules(native, logits, params)
    assert token > 100


def test_the_total_is_the_exact_sum_of_all_weights(native: NativeDraws) -> None:
    logits = np.random.default_rng(1).standard_normal(20_011).astype(np.float32) * 3
    weights = weights_of(native, logits, 0.7)
    assert native.total(logits, 0.7) == sum(int(weight) for weight in weights)


def test_powers_of_two_are_near_the_true_ones(native: NativeDraws) -> None:
    x = np.linspace(-36, 0, 10_001, dtype=np.float32)
    exact = np.exp2(x.astype(np.float64))
    powers = native.exp2(x)
    np.testing.assert_allclose(powers, exact, rtol=4e-6)
    assert powers.max() == powers[-1] == 1.0


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    choice=st.integers(0, 2**32 - 1),
    position=st.integers(0, 2**64 - 1),
)
def test_the_random_number_is_the_engines(
    native: NativeDraws, seed: int, choice: int, position: int
) -> None:
    assert native.uniform(seed, choice, position) == uniform(seed, choice, position)


@settings(max_examples=200, deadline=None)
@given(logits=ANY_ROW)
def test_argmax_takes_the_lowest_of_equal_ids(native: NativeDraws, logits: Float32Array) -> None:
    numbers = np.where(np.isnan(logits), -INF, logits)
    assert native.argmax(logits) == int(np.argmax(numbers))


@pytest.mark.parametrize(
    ("logits", "token"),
    [
        ([NAN, NAN], 0),
        ([-INF, -INF, NAN], 0),
        ([NAN, -INF, 3.0], 2),
        ([1.0, INF, INF, NAN], 1),
        ([NAN] * 40 + [-3.0], 40),
        ([-INF] * 15 + [-3e38], 15),
    ],
)
@pytest.mark.parametrize(
    "cut", [{}, {"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.5}, {"min_p": 0.5}], ids=str
)
def test_rows_that_are_no_distribution_give_a_token(
    native: NativeDraws, logits: list[float], token: int, cut: dict[str, float]
) -> None:
    assert native.draw(np.array(logits, dtype=np.float32), params_of(**cut)) == token


def test_zeros_of_both_signs_are_equal(native: NativeDraws) -> None:
    logits = np.array([-1, -0.0, 0.0, -0.0], dtype=np.float32)
    assert native.argmax(logits) == 1
    drawn = {native.draw(logits, params_of(top_k=2, position=p)) for p in range(50)}
    assert drawn == {1, 2}


@pytest.mark.parametrize(
    ("cut", "kept"), [({}, 200), ({"top_k": 30}, 30), ({"temperature": 0.6, "top_p": 0.9}, None)]
)
def test_frequencies_follow_the_distribution(
    native: NativeDraws, cut: dict[str, float], kept: int | None
) -> None:
    draws = 20_000
    logits = np.random.default_rng(3).standard_normal(200).astype(np.float32) * 1.5
    likely = np.exp(logits.astype(np.float64) / cut.get("temperature", 1.0))
    ranking = np.argsort(-logits)
    if kept is None:
        shares = np.cumsum(likely[ranking]) / likely.sum()
        kept = int(np.searchsorted(shares, cut["top_p"])) + 1
    likely[ranking[kept:]] = 0
    expected = draws * likely / likely.sum()
    drawn = [native.draw(logits, params_of(seed=9, position=i, **cut)) for i in range(draws)]
    counts = np.bincount(drawn, minlength=200)
    assert not counts[expected == 0].any()
    often = expected >= 5
    rare = counts[~often].sum(), expected[~often].sum()
    chi_square = ((counts - expected)[often] ** 2 / expected[often]).sum()
    freedom = int(often.sum()) - 1
    if rare[1] > 5:
        chi_square += (rare[0] - rare[1]) ** 2 / rare[1]
        freedom += 1
    # Wilson and Hilferty's approximation of the quantile at 0.1 %.
    ninth = 2 / (9 * freedom)
    assert chi_square < freedom * (1 - ninth + 3.09 * ninth**0.5) ** 3
