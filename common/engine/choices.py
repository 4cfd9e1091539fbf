"""n choices of one prompt: one computation, and what the allocator lets them share of it."""

from common.engine.allocation import Allocator
from common.engine.runner import Runner
from common.engine.sequence import Event, Sequence


def fork(leader: Sequence, choice: int, allocator: Allocator, runner: Runner) -> Sequence:
    """A sequence that has all the leader computed, in shared blocks or in copies of its own.

    Without room for the copies it begins preempted, and computes what it lacks when there is.
    """
    twin = Sequence(leader.key, choice, leader.prompt, leader.params, leader.arrival, leader.root)
    twin.units = list(leader.units)
    twin.recompute_until = leader.computed
    for event in (Event.ADMIT, Event.START):
        twin.advance(event)
    copies = allocator.fork(leader, twin)
    if copies is None:
        twin.advance(Event.PREEMPT)
        return twin
    for source, target in copies:
        runner.copy_block(source, target)
    return twin
