"""Names for filled blocks, and what the router is told about them."""

from collections.abc import Sequence as Sequences

from common.domain.ids import UnitHash
from common.engine.job import CacheChanged
from common.engine.prefix_cache import CacheEvent, CacheStored, PrefixCache
from common.engine.sequence import Sequence
from common.kv.hashing import UNIT_TOKENS, extend_chain


def name_blocks(sequence: Sequence, cache: PrefixCache, block_tokens: int) -> None:
    """Publish every newly filled block, extending the hash chain over generated tokens."""
    whole = sequence.computed // block_tokens
    if whole <= sequence.named or not sequence.root:
        return
    per_block = block_tokens // UNIT_TOKENS
    known, wanted = len(sequence.units), whole * per_block
    if wanted > known:
        fresh = sequence.tokens(known * UNIT_TOKENS, wanted * UNIT_TOKENS)
        sequence.units += extend_chain(_parent(sequence, known), fresh)
    for block in range(sequence.named, whole):
        first = block * per_block
        units = tuple(sequence.units[first : first + per_block])
        cache.name(sequence.table[block], _parent(sequence, first), units)
    sequence.named = whole


def _parent(sequence: Sequence, unit: int) -> UnitHash:
    return sequence.units[unit - 1] if unit else sequence.root


def cache_changes(changes: Sequences[CacheEvent]) -> list[CacheChanged]:
    """The same changes in the same order, in as few events as that allows: within one, what was
    stored was stored before anything was removed."""
    events: list[CacheChanged] = []
    stored: list[CacheStored] = []
    removed: list[UnitHash] = []
    for change in changes:
        if isinstance(change, CacheStored):
            if removed:
                events.append(CacheChanged(tuple(stored), tuple(removed)))
                stored, removed = [], []
            stored.append(change)
        else:
            removed += change.units
    if stored or removed:
        events.append(CacheChanged(tuple(stored), tuple(removed)))
    return events
