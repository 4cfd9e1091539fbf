"""Slots of one KV pool: which are free, how many owners the others have.

Knows nothing of contents or names. A slot is handed out with one reference and comes back to the
free list when the last is dropped, unless somebody keeps it (the prefix cache does).
"""

from collections.abc import Callable


class SlotPool:
    """Free list and reference counts. `before_reuse` runs each time a slot is handed out, before
    its bytes may change: the arena bumps the slot's generation there."""

    def __init__(self, slots: int, before_reuse: Callable[[int], object]) -> None:
        self._free = list(range(slots - 1, -1, -1))
        self._refs = [0] * slots
        self._before_reuse = before_reuse
        self.slots = slots

    @property
    def free(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """One free slot with one reference. Raises IndexError if there is none."""
        slot = self._free.pop()
        self._before_reuse(slot)
        self._refs[slot] = 1
        return slot

    def take_run(self, count: int) -> list[int] | None:
        """`count` adjacent free slots in order, the first such run, with one reference each. None
        if there is no such run. Looks at every free slot."""
        is_free = bytearray(self.slots)
        for slot in self._free:
            is_free[slot] = 1
        first = is_free.find(b"\x01" * count)
        if first < 0:
            return None
        run = range(first, first + count)
        self._free = [slot for slot in self._free if slot not in run]
        for slot in run:
            self._before_reuse(slot)
            self._refs[slot] = 1
        return list(run)

    def refs(self, slot: int) -> int:
        return self._refs[slot]

    def retain(self, slot: int) -> None:
        self._refs[slot] += 1

    def drop(self, slot: int) -> int:
        """References left. At 0 the slot belongs to the caller until it is put back."""
        if self._refs[slot] <= 0:
            raise ValueError(f"slot {slot} has no reference to drop")
        self._refs[slot] -= 1
        return self._refs[slot]

    def put_back(self, slot: int) -> None:
        if self._refs[slot] != 0:
            raise ValueError(f"slot {slot} is still referenced")
        self._free.append(slot)
