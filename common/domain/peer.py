"""How one process is described to another."""

from dataclasses import dataclass
from enum import IntEnum

from common.domain.block import ArenaRef
from common.domain.ids import Incarnation, ProcessId, ProcessName


class Role(IntEnum):
    GATEWAY = 1
    ROUTER = 2
    PREFILL = 3
    DECODE = 4
    KVSTORE = 5


class Medium(IntEnum):
    """Where a block lies, seen from the worker that would read it."""

    DEVICE = 1
    HOST = 2


@dataclass(frozen=True, slots=True)
class PeerRef:
    """One life of one process and where it listens."""

    name: ProcessName
    incarnation: Incarnation
    role: Role
    address: str
    arena: ArenaRef | None = None

    @property
    def id(self) -> ProcessId:
        return ProcessId(self.name, self.incarnation)
