"""The policies by name. A new one is a file here and a line below; the contract suite enrols it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from services.router.placement import Draw, Policy
from services.router.policies.kv_aware import KvAware
from services.router.policies.least_loaded import LeastLoaded
from services.router.policies.random import Random
from services.router.policies.round_robin import RoundRobin

POLICIES: Mapping[str, Callable[[Draw], Policy]] = MappingProxyType(
    {
        "kv_aware": KvAware,
        "least_loaded": LeastLoaded,
        "random": Random,
        "round_robin": RoundRobin,
    }
)
