"""The schedulers by name. A new one is a file here, a line below and its name in the Literal; the
contract suite enrols it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal

from common.engine.schedulers.chunked import Chunked
from common.engine.schedulers.prefill_first import PrefillFirst
from common.engine.schedulers.static import Static
from common.engine.step_plan import Budget, Scheduler

SchedulerName = Literal["chunked", "prefill_first", "static"]

SCHEDULERS: Mapping[SchedulerName, Callable[[Budget], Scheduler]] = MappingProxyType(
    {
        "chunked": Chunked,
        "prefill_first": PrefillFirst,
        "static": Static,
    }
)
