"""Blocks one by one, wherever they lie: those of the prompt at admission, another one when the last
is full (the PagedAttention paper). A prefix that is known is shared, and so are the whole blocks of
a request's choices."""

from common.engine.allocation import blocks_for, cacheable_names
from common.engine.prefix_cache import PrefixCache
from common.engine.sequence import Sequence


class Paged:
    """Implements Allocator."""

    shares = True

    def __init__(self, cache: PrefixCache, block_tokens: int, context_tokens: int) -> None:
        self.cache = cache
        self._block_tokens = block_tokens

    def admits(self, waiting: Sequence, running: int) -> bool:
        """One block stays for each that runs."""
        prompt = len(waiting.prompt)
        names = cacheable_names(waiting, prompt, self._block_tokens)
        taken = self.cache.cost(names, blocks_for(prompt, self._block_tokens))
        return taken + running <= self.cache.available

    def reserve(self, sequence: Sequence, tokens: int) -> bool:
        """Cached blocks of the sequence's own prefix and fresh ones for the rest."""
        found = self.cache.match(cacheable_names(sequence, tokens, self._block_tokens))
        fresh = self.cache.allocate(blocks_for(tokens, self._block_tokens) - len(found))
        if fresh is None:
            self.cache.release(found)
            return False
        sequence.table = found + fresh
        sequence.computed = len(found) * self._block_tokens
        sequence.named = len(found)
        return True

    def fork(self, leader: Sequence, twin: Sequence) -> list[tuple[int, int]] | None:
        """Whole blocks are shared, the partial one is copied."""
        whole = leader.computed // self._block_tokens
        tail = leader.table[whole : blocks_for(leader.computed, self._block_tokens)]
        fresh = self.cache.allocate(len(tail))
        if fresh is None:
            return None
        for slot in leader.table[:whole]:
            self.cache.retain(slot)
        twin.table = leader.table[:whole] + fresh
        twin.computed = leader.computed
        twin.named = whole
        return list(zip(tail, fresh, strict=True))
