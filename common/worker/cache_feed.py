"""What this worker's prefix cache holds, told to the router as numbered events."""

from collections.abc import Callable, Iterable, Sequence

from common.domain.peer import Medium
from common.engine.job import CacheChanged
from common.engine.prefix_cache import CacheStored
from common.wire.columns import pack_hashes
from common.wire.messages import Message
from common.wire.messages.events import BlocksRemoved, BlocksStored, Snapshot

PART_UNITS = 16_384
"""32 bytes for a unit and 32 for its parent: a part stays near 1 MiB."""


class CacheFeed:
    """Numbers events from 1. An event that cannot be sent leaves a gap, and the router asks for a
    snapshot when it sees one."""

    def __init__(self, send: Callable[[Message], bool]) -> None:
        self._send = send
        self._number = 0

    def changed(self, change: CacheChanged) -> None:
        for run in runs_of(change.stored):
            self._number += 1
            units = [unit for stored in run for unit in stored.units]
            self._send(BlocksStored(self._number, Medium.DEVICE, run[0].parent, pack_hashes(units)))
        for start in range(0, len(change.removed), PART_UNITS):
            self._number += 1
            removed = pack_hashes(change.removed[start : start + PART_UNITS])
            self._send(BlocksRemoved(self._number, Medium.DEVICE, removed))

    def snapshot(self, contents: Iterable[CacheStored]) -> None:
        """Everything held as of the last event."""
        pairs: list[tuple[bytes, bytes]] = []
        for stored in contents:
            parents = (stored.parent, *stored.units[:-1])
            pairs += zip(parents, stored.units, strict=True)
        parts = [
            pairs[start : start + PART_UNITS] for start in range(0, len(pairs), PART_UNITS)
        ] or [[]]
        for index, part in enumerate(parts):
            self._send(
                Snapshot(
                    self._number,
                    Medium.DEVICE,
                    b"".join(parent for parent, _ in part),
                    b"".join(unit for _, unit in part),
                    part=index,
                    last=index == len(parts) - 1,
                )
            )


def runs_of(stored: Sequence[CacheStored]) -> list[list[CacheStored]]:
    """Consecutive blocks of one chain together: one event each run."""
    runs: list[list[CacheStored]] = []
    for block in stored:
        if runs and runs[-1][-1].units[-1] == block.parent:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs
