"""n choices of one prompt: one computation, one set of whole blocks, n tails."""

from common.engine.prefix_cache import PrefixCache
from common.engine.runner import Runner
from common.engine.scheduler import blocks_for
from common.engine.sequence import Event, Sequence


def fork(leader: Sequence, choice: int, cache: PrefixCache, runner: Runner) -> Sequence:
    """A sequence that shares the leader's whole blocks and has its own copy of the partial one.

    Without room for the copy it begins preempted, and computes what it lacks when there is.
    """
    block_tokens = runner.layout.block_tokens
    twin = Sequence(leader.key, choice, leader.prompt, leader.params, leader.arrival, leader.root)
    twin.units = list(leader.units)
    twin.recompute_until = leader.computed
    for event in (Event.ADMIT, Event.START):
        twin.advance(event)
    whole = leader.computed // block_tokens
    tail = leader.table[whole : blocks_for(leader.computed, block_tokens)]
    fresh = cache.allocate(len(tail))
    if fresh is None:
        twin.advance(Event.PREEMPT)
        return twin
    for source, target in zip(tail, fresh, strict=True):
        runner.copy_block(source, target)
    for slot in leader.table[:whole]:
        cache.retain(slot)
    twin.table = leader.table[:whole] + fresh
    twin.computed = leader.computed
    twin.named = whole
    return twin
