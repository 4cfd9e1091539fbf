import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.engine.philox import uniform

words = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ((0, 0, 0), 0.011546754286331562),
        ((1, 0, 0), 0.3035680343067586),
        ((1, 1, 0), 0.0751511510959112),
        ((1, 0, 1), 0.9002684531124185),
        ((2**64 - 1, 3, 4095), 0.8043298961930414),
    ],
)
def test_golden_values_never_change(name: tuple[int, int, int], number: float) -> None:
    assert uniform(*name) == number


def philox_4x64_10(key: list[int], counter: list[int]) -> list[int]:
    """The published algorithm, written out."""
    mask = 2**64 - 1
    for _ in range(10):
        first = counter[0] * 0xD2E7470EE14C6C93
        second = counter[2] * 0xCA5A826395121157
        counter = [
            (second >> 64) ^ counter[1] ^ key[0],
            second & mask,
            (first >> 64) ^ counter[3] ^ key[1],
            first & mask,
        ]
        key = [(key[0] + 0x9E3779B97F4A7C15) & mask, (key[1] + 0xBB67AE8584CAA73B) & mask]
    return counter


@given(seed=words, choice=st.integers(0, 127), position=st.integers(0, 2**32))
def test_it_is_the_first_word_of_philox_at_the_next_counter(
    seed: int, choice: int, position: int
) -> None:
    word = philox_4x64_10([seed, choice], [position + 1, 0, 0, 0])[0]
    number = uniform(seed, choice, position)
    assert number == (word >> 11) / 2**53
    assert 0.0 <= number < 1.0


def test_numbers_fill_the_unit_interval_evenly() -> None:
    numbers = sorted(uniform(5, 0, position) for position in range(2000))
    gap = max(abs(number - (rank + 0.5) / 2000) for rank, number in enumerate(numbers))
    assert gap < 1.63 / 2000**0.5  # Kolmogorov-Smirnov at 1 %
