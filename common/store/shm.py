"""Reading on one host: map the holder's arena once, copy block by block, check.

One copy, no staging, nothing asked of the holder, which may even be dead: what is mapped stays. A
mapping keeps the holder's memory alive, so there is one per holder, for its newest life, and one
that nobody used for a while is dropped.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from common.domain.block import ArenaRef, Descriptor
from common.domain.errors import ProtocolError
from common.store.arena import ArenaView, SlotMap, checksum
from common.store.share import open_shared

IDLE_S = 30.0
MAX_MAPPED = 64
log = structlog.get_logger()


@dataclass(slots=True)
class _Mapped:
    ref: ArenaRef
    view: ArenaView
    used_at: float


def copy_block(holder: SlotMap, block: Descriptor, length: int, target: memoryview) -> bool:
    """One block into `target`, verified. Only numpy's copy leaves the GIL to others."""
    if not 0 <= block.slot < holder.slots or holder.generation(block.slot) != block.generation:
        return False
    source = holder.view(block.slot)[:length]
    copied = target[:length]
    np.copyto(np.frombuffer(copied, np.uint8), np.frombuffer(source, np.uint8))
    # After the copy: the owner bumps before it writes, so an old generation means old bytes.
    return holder.generation(block.slot) == block.generation and checksum(copied) == block.crc


class ShmReader:
    """See transfer.Reader."""

    def __init__(self) -> None:
        self._mapped: dict[str, _Mapped] = {}

    def read(
        self,
        ref: ArenaRef,
        descriptors: Sequence[Descriptor],
        length: int,
        targets: Sequence[memoryview],
    ) -> list[bool]:
        view = self._view(ref, time.monotonic())
        if view is None or length > view.slot_bytes:
            return [False] * len(descriptors)
        return [
            copy_block(view, block, length, target)
            for block, target in zip(descriptors, targets, strict=True)
        ]

    def _view(self, ref: ArenaRef, now: float) -> ArenaView | None:
        """The mapping of this life, made if need be. None when it cannot be had."""
        for holder, mapped in list(self._mapped.items()):
            if now - mapped.used_at > IDLE_S:
                self._drop(holder)
        known = self._mapped.get(ref.holder)
        if known is not None and known.ref == ref:
            known.used_at = now
            return known.view
        try:
            view = open_shared(ref)
        except (OSError, ProtocolError) as error:
            log.warning("arena_unreachable", holder=ref.holder, epoch=ref.epoch, error=str(error))
            return None
        self._drop(ref.holder)
        if len(self._mapped) >= MAX_MAPPED:
            self._drop(min(self._mapped, key=lambda holder: self._mapped[holder].used_at))
        self._mapped[ref.holder] = _Mapped(ref, view, now)
        return view

    def _drop(self, holder: str) -> None:
        mapped = self._mapped.pop(holder, None)
        if mapped is not None:
            mapped.view.close()

    def close(self) -> None:
        for holder in list(self._mapped):
            self._drop(holder)
