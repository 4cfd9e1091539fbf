from hypothesis import given
from hypothesis import strategies as st

from common.model.attention.grouping import group_by_length


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(0, 200))
def test_every_sequence_is_in_one_group_that_fits_and_pads_little(
    blocks: list[int], max_blocks: int
) -> None:
    groups = group_by_length(blocks, max_blocks)
    assert sorted(index for group in groups for index in group) == list(range(len(blocks)))
    for group in groups:
        lengths = [blocks[index] for index in group]
        assert lengths[0] == max(lengths)
        if len(group) > 1:
            assert len(group) * max(lengths) <= max_blocks
            assert sum(lengths) >= 0.75 * len(group) * max(lengths)


def test_alike_sequences_share_a_group() -> None:
    assert group_by_length([4, 4, 4, 1], 12) == [[0, 1, 2], [3]]
