"""Who is in the engine: its jobs, and where each of their sequences stands.

A sequence waits for blocks, is held while somebody outside may be writing into them, runs (or is
preempted, and comes back), and leaves: its state says in which of the three collections it is. All
are in order of arrival: who came first is admitted first, and the youngest gives way. Owns the
collections and the rule of admission; tells nobody, for that is the engine's part. Pure.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, assert_never

from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, UnitHash
from common.engine.allocation import Allocator
from common.engine.job import Add, Job
from common.engine.sequence import Event, Sequence, State
from common.engine.step_plan import place_of


class Roster:
    """The collections change in place and through the methods alone; everybody may read them."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._revoked: set[AttemptKey] = set()
        """Held jobs that were asked to go, until they are dropped or start all the same."""
        self._arrivals = 0
        self.jobs: Final[dict[AttemptKey, Job]] = {}
        self.waiting: Final[deque[Sequence]] = deque()
        self.held: Final[dict[AttemptKey, Sequence]] = {}
        self.running: Final[list[Sequence]] = []
        """RUNNING and PREEMPTED, by arrival and choice."""

    def enter(self, add: Add) -> None:
        """The job's only sequence waits until admitted."""
        self.jobs[add.key] = Job(add, unfinished=add.params.n)
        self._arrivals += 1
        root = add.root if self._allocator.shares else UnitHash(b"")
        sequence = Sequence(add.key, 0, add.prompt, add.params, self._arrivals, root)
        sequence.units = list(add.units)
        self.waiting.append(sequence)

    def admit(self, most: int) -> list[Sequence]:
        """Reserve blocks for waiting prompts, in order, until `most` are held or run. Nobody is
        admitted before those who were preempted are back; who is alone may have the whole pool."""
        admitted: list[Sequence] = []
        while self.waiting and len(self.running) + len(self.held) < most:
            sequence = self.waiting[0]
            if not self._reserved(sequence):
                break
            self.waiting.popleft()
            sequence.advance(Event.ADMIT)
            self.held[sequence.key] = sequence
            admitted.append(sequence)
        return admitted

    def _reserved(self, sequence: Sequence) -> bool:
        if any(other.state is State.PREEMPTED for other in self.running):
            return False
        somebody = self.running or self.held
        if somebody and not self._allocator.admits(sequence, len(self.running)):
            return False
        return self._allocator.reserve(sequence, len(sequence.prompt))

    def start(self, key: AttemptKey) -> Sequence | None:
        """The held sequence runs; None if none is held."""
        sequence = self.held.pop(key, None)
        if sequence is not None:
            self._revoked.discard(key)
            sequence.advance(Event.START)
            self.join([sequence])
        return sequence

    def join(self, sequences: Iterable[Sequence]) -> None:
        """These run, too."""
        self.running.extend(sequences)
        self.running.sort(key=place_of)

    def revoke_youngest(self) -> AttemptKey | None:
        """Of the held jobs not revoked yet."""
        candidates = [seq for key, seq in self.held.items() if key not in self._revoked]
        if not candidates:
            return None
        youngest = max(candidates, key=place_of)
        self._revoked.add(youngest.key)
        return youngest.key

    def leave(self, sequence: Sequence, reason: FinishReason) -> None:
        """The sequence has ended, and gives back its blocks."""
        match sequence.state:
            case State.WAITING:
                self.waiting.remove(sequence)
            case State.HELD:
                del self.held[sequence.key]
            case State.RUNNING | State.PREEMPTED:
                self.running.remove(sequence)
            case State.FINISHED:
                pass  # which the next line refuses
            case _:
                assert_never(sequence.state)
        sequence.advance(Event.FINISH)
        sequence.finish = reason
        self._allocator.cache.release(sequence.table)
        sequence.table = []

    def drop(self, key: AttemptKey) -> Job | None:
        """The job and all its sequences, wherever they stand; None if there is no such job."""
        self._revoked.discard(key)
        job = self.jobs.pop(key, None)
        if job is not None:
            everybody = (*self.held.values(), *self.running, *self.waiting)
            for sequence in [seq for seq in everybody if seq.key == key]:
                self.leave(sequence, FinishReason.CANCELLED)
        return job
