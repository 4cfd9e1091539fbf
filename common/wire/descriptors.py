"""Block descriptors as three int32 columns, the way Blocks, Offer and Found carry them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.domain.block import Descriptor
from common.domain.errors import ProtocolError
from common.wire.columns import unpack_i32


class DescriptorColumns(NamedTuple):
    """Fields in the order in which the messages have them."""

    slots: bytes
    generations: bytes
    crcs: bytes
    """crc32c as the signed image of its 32 bits."""


def pack_descriptors(descriptors: Sequence[Descriptor]) -> DescriptorColumns:
    rows = [(block.slot, block.generation, block.crc) for block in descriptors]
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    slots, generations, crcs = (table[:, i].astype(np.uint32).view("<i4") for i in range(3))
    return DescriptorColumns(slots.tobytes(), generations.tobytes(), crcs.tobytes())


def unpack_descriptors(slots: bytes, generations: bytes, crcs: bytes) -> list[Descriptor]:
    """Raises ProtocolError on broken columns, unequal lengths or negative positions."""
    first, second, third = unpack_i32(slots), unpack_i32(generations), unpack_i32(crcs)
    if not len(first) == len(second) == len(third):
        raise ProtocolError("descriptor columns of unequal lengths")
    if len(first) and (first.min() < 0 or second.min() < 0):
        raise ProtocolError("descriptor with a negative slot or generation")
    rows = zip(first.tolist(), second.tolist(), third.view("<u4").tolist(), strict=True)
    return [Descriptor(slot, generation, crc) for slot, generation, crc in rows]
