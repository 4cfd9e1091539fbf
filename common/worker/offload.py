"""Away from the device: offer freshly computed blocks to the kvstore."""

from collections.abc import Sequence

from common.domain.block import Descriptor
from common.domain.ids import UnitHash
from common.kv.hashing import UNIT_TOKENS
from common.worker.node import Node
from common.worker.pins import Pinned


def offer_blocks(
    node: Node,
    root: UnitHash,
    units: Sequence[UnitHash],
    first: int,
    descriptors: Sequence[Descriptor],
    pinned: Pinned,
) -> None:
    """Offer whole blocks `first`.. of a prompt; the pin is shared until the store has read them.

    `units` are those of the whole prompt. Blocks without a name (no root, or past the last whole
    unit) are not offered.
    """
    per_block = node.layout.block_tokens // UNIT_TOKENS
    named = min(len(descriptors), len(units) // per_block - first)
    if not root or named <= 0:
        return
    start = first * per_block
    parent = units[start - 1] if start else root
    node.pins.share(pinned)
    node.store.offer(
        parent,
        units[start : start + named * per_block],
        descriptors[:named],
        lambda: node.pins.let_go(pinned),
    )
