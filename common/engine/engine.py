"""The engine: commands in, one step at a time, events out.

`step()` is plan -> batch -> forward and draw -> commit. Runs in whatever thread calls it, blocks
for one forward pass, and owns every slot of its pool; it does not know of sockets, peers or the
loop.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey
from common.engine.accounting import book_step
from common.engine.batch import build_batch, choices_to_draw
from common.engine.choices import fork
from common.engine.finish import finish_of
from common.engine.job import (
    Add,
    Command,
    Computed,
    Contents,
    Deliver,
    Done,
    Drop,
    Dropped,
    Emitted,
    EngineEvent,
    FirstDrawn,
    Held,
    Job,
    Refused,
    ResetCache,
    Revoke,
    Start,
    Unpin,
    WantSnapshot,
)
from common.engine.naming import cache_changes, name_blocks
from common.engine.occupancy import Occupancy, OccupancyIntegral, occupancy
from common.engine.prefix_cache import PrefixCache
from common.engine.runner import Drawn, Runner
from common.engine.scheduler import (
    Budget,
    Scheduler,
    StepPlan,
    blocks_for,
    cacheable_names,
    reserve,
)
from common.engine.sequence import Event, Sequence, State


@dataclass(frozen=True, slots=True)
class EngineLimits:
    step_tokens: int = 512
    """Rows of one forward pass."""
    max_sequences: int = 64
    """Sequences that hold blocks at once."""
    tpot_target_ms: float = 0.0
    """Predicted time of a step with decodes that prompts may fill up; 0: that of the decodes and
    of a 128-token chunk."""

    def budget(self, block_tokens: int) -> Budget:
        return Budget(self.step_tokens, block_tokens, self.tpot_target_ms * 1e-3)


class Engine:
    """One model, one pool."""

    def __init__(
        self,
        runner: Runner,
        cache: PrefixCache,
        limits: EngineLimits,
        clock: Callable[[], float],
    ) -> None:
        self._runner = runner
        self._cache = cache
        self._limits = limits
        self._clock = clock
        self._block_tokens = runner.layout.block_tokens
        self._scheduler = Scheduler(limits.budget(self._block_tokens))
        # A sequence that has the whole pool to itself must end, not wait for one block more.
        self._context_tokens = min(runner.context_tokens, cache.slots * self._block_tokens)
        self._jobs: dict[AttemptKey, Job] = {}
        self._waiting: deque[Sequence] = deque()
        self._held: dict[AttemptKey, Sequence] = {}
        self._running: list[Sequence] = []
        self._revoked: set[AttemptKey] = set()
        self._events: list[EngineEvent] = []
        self._arrivals = 0
        self.steps = 0
        self.integral = OccupancyIntegral(self._block_tokens)
        self.integral.observe(Occupancy(0, 0, 0), clock())

    @property
    def busy(self) -> bool:
        """False: step() would do nothing until the next command."""
        return bool(self._running or self._waiting)

    @property
    def running(self) -> int:
        return len(self._running) + len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def cache(self) -> PrefixCache:
        return self._cache

    def occupancy(self) -> Occupancy:
        sequences = [*self._running, *self._held.values()]
        return occupancy(sequences, self._cache.used, self._block_tokens)

    def handle(self, command: Command) -> None:
        match command:
            case Add():
                self._add(command)
            case Start():
                self._start(command)
            case Deliver(key, first):
                self._deliver(key, first)
            case Drop(key):
                self._drop(key)
            case Unpin(slots):
                self._cache.release(slots)
            case ResetCache():
                self._cache.reset()
            case WantSnapshot():
                self._flush_cache_events()
                self._events.append(Contents(tuple(self._cache.contents())))
            case _:
                assert_never(command)

    def _add(self, add: Add) -> None:
        if add.key in self._jobs:
            return
        needed = blocks_for(len(add.prompt) + 1, self._block_tokens)
        if needed > self._cache.slots:
            why = f"the prompt needs {needed} KV blocks; this worker has {self._cache.slots}"
            self._events.append(Refused(add.key, ErrorCode.CAPACITY, why))
            return
        self._jobs[add.key] = Job(add, unfinished=add.params.n)
        self._arrivals += 1
        sequence = Sequence(add.key, 0, add.prompt, add.params, self._arrivals, add.root)
        sequence.units = list(add.units)
        self._waiting.append(sequence)

    def _start(self, start: Start) -> None:
        sequence = self._held.pop(start.key, None)
        if sequence is None:
            return
        self._jobs[start.key].exported = start.export_from
        self._begin(sequence, start.computed)
        self._export(sequence)

    def _deliver(self, key: AttemptKey, first: tuple[Drawn, ...]) -> None:
        sequence = self._held.pop(key, None)
        if sequence is None:
            return
        self._begin(sequence, len(sequence.prompt))
        self._open_choices(sequence, list(first))

    def _begin(self, sequence: Sequence, computed: int) -> None:
        sequence.advance(Event.START)
        there = sequence.computed // self._block_tokens
        arrived = sequence.table[there : blocks_for(computed, self._block_tokens)]
        self._runner.to_device(arrived)
        sequence.computed = computed
        self._running.append(sequence)
        self._running.sort(key=lambda seq: (seq.arrival, seq.choice))
        name_blocks(sequence, self._cache, self._block_tokens)

    def _drop(self, key: AttemptKey) -> None:
        self._revoked.discard(key)
        job = self._jobs.pop(key, None)
        if job is None:
            return
        self._events.append(Dropped(key, job.ledger))
        held = self._held.pop(key, None)
        doomed = [seq for seq in (*self._running, *self._waiting) if seq.key == key]
        for sequence in [held, *doomed] if held else doomed:
            self._end(sequence, FinishReason.CANCELLED)

    def step(self) -> list[EngineEvent]:
        """Compute one batch. Returns every event since the last call."""
        self._admit()
        plan = self._scheduler.plan(self._running, self._cache)
        for victim in plan.preempted:
            self._jobs[victim.key].ledger.preemptions += 1
        if plan.starved:
            self._revoke_youngest()
        if plan.rows:
            self._compute(plan)
        self._flush_cache_events()
        self.integral.observe(self.occupancy(), self._clock())
        events, self._events = self._events, []
        return events

    def _admit(self) -> None:
        """Reserve blocks for waiting prompts, in order, leaving one block to each that runs."""
        while self._waiting and self.running < self._limits.max_sequences:
            if any(seq.state is State.PREEMPTED for seq in self._running):
                return
            sequence = self._waiting[0]
            prompt = len(sequence.prompt)
            names = cacheable_names(sequence, prompt, self._block_tokens)
            taken = self._cache.cost(names, blocks_for(prompt, self._block_tokens))
            if taken + len(self._running) > self._cache.available and self.running:
                return
            if not reserve(sequence, prompt, self._cache, self._block_tokens):
                return
            self._waiting.popleft()
            sequence.advance(Event.ADMIT)
            self._held[sequence.key] = sequence
            self._jobs[sequence.key].ledger.cached_device_tokens = sequence.computed
            self._events.append(
                Held(sequence.key, tuple(sequence.table), cached_tokens=sequence.computed)
            )

    def _revoke_youngest(self) -> None:
        candidates = [seq for key, seq in self._held.items() if key not in self._revoked]
        if candidates:
            youngest = max(candidates, key=lambda seq: seq.arrival)
            self._revoked.add(youngest.key)
            self._events.append(Revoke(youngest.key))

    def _compute(self, plan: StepPlan) -> None:
        batch, owners = build_batch(plan.rows)
        started = self._clock()
        drawn = self._runner.step(batch)
        elapsed_s = self._clock() - started
        self.steps += 1
        book_step(plan, self._jobs, elapsed_s * 1e3)
        self._scheduler.observe(plan, elapsed_s)
        for sequence, count in plan.rows:
            sequence.computed += count
            name_blocks(sequence, self._cache, self._block_tokens)
            self._export(sequence)
        by_sequence = _by_sequence(owners, drawn)
        for sequence, _count in plan.rows:
            tokens = by_sequence.get(id(sequence))
            if tokens is not None:
                self._commit(sequence, tokens)

    def _commit(self, sequence: Sequence, drawn: list[Drawn]) -> None:
        if sequence.output:
            self._append(sequence, drawn[0])
        elif self._jobs[sequence.key].add.hand_off:
            self._hand_off(sequence, drawn)
        else:
            self._open_choices(sequence, drawn)

    def _hand_off(self, sequence: Sequence, drawn: list[Drawn]) -> None:
        job = self._jobs.pop(sequence.key)
        self._events.append(FirstDrawn(sequence.key, tuple(drawn), job.ledger))
        self._end(sequence, FinishReason.STOP)

    def _open_choices(self, leader: Sequence, drawn: list[Drawn]) -> None:
        """The prompt is done: every choice gets its first token, and its own tail block."""
        others = [
            fork(leader, choice, self._cache, self._runner)
            for choice in choices_to_draw(leader)[1:]
        ]
        self._running += others
        self._running.sort(key=lambda seq: (seq.arrival, seq.choice))
        for sequence, token in zip([leader, *others], drawn, strict=True):
            self._append(sequence, token)

    def _append(self, sequence: Sequence, drawn: Drawn) -> None:
        sequence.output.append(drawn.token)
        finish = finish_of(sequence, self._runner.eos_token_ids, self._context_tokens)
        index = len(sequence.output) - 1
        self._events.append(Emitted(sequence.key, sequence.choice, index, drawn, finish))
        if finish is None:
            return
        self._end(sequence, finish)
        job = self._jobs[sequence.key]
        job.unfinished -= 1
        if job.unfinished == 0:
            del self._jobs[sequence.key]
            self._events.append(Done(sequence.key, job.ledger))

    def _end(self, sequence: Sequence, reason: FinishReason) -> None:
        sequence.advance(Event.FINISH)
        sequence.finish = reason
        self._cache.release(sequence.table)
        sequence.table = []
        for place in (self._running, self._waiting):
            if sequence in place:
                place.remove(sequence)

    def _export(self, sequence: Sequence) -> None:
        """Report, and pin, prompt blocks that became final."""
        job = self._jobs[sequence.key]
        if job.exported is None or sequence.output:
            return
        prompt = len(sequence.prompt)
        last = sequence.computed >= prompt
        final = min(sequence.computed, prompt) // self._block_tokens
        if last and job.add.hand_off:
            final = blocks_for(prompt, self._block_tokens)
        slots = tuple(sequence.table[job.exported : final])
        if not slots and not last:
            return
        self._runner.to_host(slots)
        for slot in slots:
            self._cache.retain(slot)
        self._events.append(Computed(sequence.key, job.exported, slots, last))
        job.exported = max(job.exported, final)

    def _flush_cache_events(self) -> None:
        changes, self._cache.events = self._cache.events, []
        self._events += cache_changes(changes)


def _by_sequence(owners: list[tuple[Sequence, int]], drawn: list[Drawn]) -> dict[int, list[Drawn]]:
    """The tokens of each sequence, by its id()."""
    grouped: dict[int, list[Drawn]] = {}
    for (sequence, _choice), token in zip(owners, drawn, strict=True):
        grouped.setdefault(id(sequence), []).append(token)
    return grouped
