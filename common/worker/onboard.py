"""Towards the device: fill held blocks from the kvstore."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.domain.ids import UnitHash
from common.kv.hashing import block_names
from common.worker.node import Node


@dataclass(frozen=True, slots=True)
class Onboarded:
    """Tokens now verified from the first on, and what of them came from the store."""

    computed: int
    loaded_tokens: int
    loaded_bytes: int


async def onboard(
    node: Node, prompt_tokens: int, units: Sequence[UnitHash], slots: Sequence[int], cached: int
) -> Onboarded:
    """Extend `cached` leading tokens of a held prompt by what the kvstore has of it.

    At least the last token stays to be computed. Whatever goes wrong is a shorter prefix.
    """
    size = node.layout.block_tokens
    first = cached // size
    names = block_names(units, size)[first : (prompt_tokens - 1) // size]
    lease = await node.store.lookup(names)
    targets = [node.arena.view(slot) for slot in slots[first : first + lease.blocks]]
    loaded = await lease.read(targets)
    return Onboarded(
        computed=cached + loaded * size,
        loaded_tokens=loaded * size,
        loaded_bytes=loaded * node.layout.block_bytes,
    )
