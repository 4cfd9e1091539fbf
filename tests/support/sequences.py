"""Sequences in any state, with blocks from a real prefix cache."""

from common.engine.allocation import blocks_for
from common.engine.allocators.paged import Paged
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Event, Sequence
from common.kv.hashing import extend_chain
from tests.support.engines import ROOT, greedy, key, prompt_of

BLOCK_TOKENS = 16


def cache_of(slots: int) -> PrefixCache:
    return PrefixCache(slots, lambda slot: None)


def paged(cache: PrefixCache) -> Paged:
    return Paged(cache, BLOCK_TOKENS, cache.slots * BLOCK_TOKENS)


def waiting(
    name: str, prompt: int, arrival: int = 0, max_tokens: int = 100, **params: int
) -> Sequence:
    tokens = prompt_of(prompt, seed=arrival)
    sequence = Sequence(key(name), 0, tokens, greedy(max_tokens, **params), arrival, ROOT)
    sequence.units = extend_chain(ROOT, tokens)
    return sequence


def running(
    cache: PrefixCache,
    name: str,
    prompt: int,
    arrival: int = 0,
    computed: int = 0,
    output: int = 0,
) -> Sequence:
    """Started, with blocks for its prompt and `computed` tokens in them."""
    sequence = waiting(name, prompt, arrival)
    for event in (Event.ADMIT, Event.START):
        sequence.advance(event)
    table = cache.allocate(blocks_for(max(prompt, computed), BLOCK_TOKENS))
    assert table is not None
    sequence.table = table
    sequence.output = list(range(output))
    sequence.computed = computed
    return sequence


def decoding(cache: PrefixCache, name: str, prompt: int, arrival: int = 0) -> Sequence:
    """Its prompt is computed and the first token drawn."""
    return running(cache, name, prompt, arrival, computed=prompt, output=1)
