"""Which block goes when a slot is needed. A rule sees only blocks that may go: held, not leased,
and without a child in the store. A new rule is one file and one line in EVICTIONS."""

from collections.abc import Callable, Set
from typing import Protocol

from common.domain.ids import UnitHash
from services.kvstore.eviction.lru import Lru


class Eviction(Protocol):
    """Order among the blocks that may go."""

    @property
    def candidates(self) -> Set[UnitHash]: ...

    def enter(self, name: UnitHash, used_at: float) -> None:
        """The block may go from now on; or it may still, and was used again."""

    def leave(self, name: UnitHash) -> None:
        """The block must stay, or is gone. Unknown names are ignored."""

    def victim(self) -> UnitHash | None:
        """The next to go, still a candidate until it leaves; None without candidates."""


EVICTIONS: dict[str, Callable[[], Eviction]] = {"lru": Lru}
