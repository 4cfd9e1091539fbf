"""Who may read which blocks until when.

A lease is granted whole with an answer to a lookup and ends by LeaseDone, by time, or with its
owner's life. Only the owner can end it early. All leases last equally long, so they expire in the
order of their grants.
"""

from dataclasses import dataclass

from common.domain.ids import ProcessId, UnitHash

LEASE_S = 10.0


@dataclass(frozen=True, slots=True)
class Lease:
    owner: ProcessId
    names: tuple[UnitHash, ...]
    ends_at: float


class LeaseBook:
    def __init__(self, lease_s: float = LEASE_S) -> None:
        self._lease_s = lease_s
        self._leases: dict[int, Lease] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._leases)

    def grant(self, owner: ProcessId, names: tuple[UnitHash, ...], now: float) -> int:
        """Number of the new lease, from 1 and never again."""
        self._last += 1
        self._leases[self._last] = Lease(owner, names, now + self._lease_s)
        return self._last

    def end(self, number: int, owner: ProcessId) -> tuple[UnitHash, ...]:
        """The names that are free of this lease now; none if it has ended or is another's."""
        lease = self._leases.get(number)
        if lease is None or lease.owner != owner:
            return ()
        del self._leases[number]
        return lease.names

    def expire(self, now: float) -> list[UnitHash]:
        """End what is overdue. A name stands in the result once for each lease on it."""
        names: list[UnitHash] = []
        for number, lease in list(self._leases.items()):
            if lease.ends_at > now:
                break
            del self._leases[number]
            names += lease.names
        return names

    def replace_owner(self, successor: ProcessId) -> list[UnitHash]:
        """End the leases of all other lives of this process."""
        names: list[UnitHash] = []
        for number, lease in list(self._leases.items()):
            if lease.owner.name == successor.name and lease.owner != successor:
                del self._leases[number]
                names += lease.names
        return names
