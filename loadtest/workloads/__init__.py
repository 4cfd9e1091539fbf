"""The workloads by name. A new one is a file here and a line; the contract suite enrols it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import SerializeAsAny

from loadtest.kinds import of_kind
from loadtest.workload import Workload
from loadtest.workloads.agent import Agent
from loadtest.workloads.azure import Azure
from loadtest.workloads.cancelling import Cancelling
from loadtest.workloads.documents import Documents
from loadtest.workloads.mooncake import Mooncake
from loadtest.workloads.multi_turn import MultiTurn
from loadtest.workloads.prompts import Prompts
from loadtest.workloads.shared_prefix import SharedPrefix
from loadtest.workloads.slow_readers import SlowReaders
from loadtest.workloads.synthetic import Synthetic

WORKLOADS: Mapping[str, type[Workload]] = MappingProxyType(
    {
        "agent": Agent,
        "azure": Azure,
        "cancelling": Cancelling,
        "documents": Documents,
        "mooncake": Mooncake,
        "multi_turn": MultiTurn,
        "prompts": Prompts,
        "shared_prefix": SharedPrefix,
        "slow_readers": SlowReaders,
        "synthetic": Synthetic,
    }
)

AnyWorkload = Annotated[SerializeAsAny[Workload], of_kind(WORKLOADS)]
"""A field that holds one, read by its kind."""

for _wrapping in (Cancelling, SlowReaders):
    # Their `of` is one of the table, which was not there when they were defined.
    _wrapping.model_rebuild(_types_namespace={"AnyWorkload": AnyWorkload})
