"""The allocators by name. A new one is a file here, a line below and its name in the Literal; the
contract suite enrols it."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal

from common.engine.allocation import Allocator
from common.engine.allocators.contiguous import (
    Contiguous,
    exactly,
    longest,
    next_power_of_two,
)
from common.engine.allocators.paged import Paged
from common.engine.prefix_cache import PrefixCache

AllocatorName = Literal["paged", "contiguous_max", "contiguous_pow2", "contiguous_oracle"]

ALLOCATORS: Mapping[AllocatorName, Callable[[PrefixCache, int, int], Allocator]] = MappingProxyType(
    {
        "paged": Paged,
        "contiguous_max": partial(Contiguous, foresight=longest),
        "contiguous_pow2": partial(Contiguous, foresight=next_power_of_two),
        "contiguous_oracle": partial(Contiguous, foresight=exactly),
    }
)
"""From the pool's owner, the tokens of a block and the longest context."""
