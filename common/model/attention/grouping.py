"""Which decoding sequences attend in one padded call. Pure.

One call for many sequences saves the fixed cost of a call: a tenth of a step at short contexts.
But each member pays for the longest, and the gathered keys and values of a group should stay in a
core's cache. So a group holds sequences of similar length, as many as fit.
"""

from collections.abc import Sequence

_SHORTEST_OVER_LONGEST = 0.75


def group_by_length(blocks: Sequence[int], max_blocks: int) -> list[list[int]]:
    """Indices into `blocks` (each sequence's block count), in groups whose padded total is at most
    `max_blocks`, or that have one member."""
    groups: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(blocks)), key=lambda i: -blocks[i]):
        fits = (
            bool(groups)
            and (len(groups[-1]) + 1) * longest <= max_blocks
            and blocks[index] >= _SHORTEST_OVER_LONGEST * longest
        )
        if fits:
            groups[-1].append(index)
        else:
            groups.append([index])
            longest = blocks[index]
    return groups
