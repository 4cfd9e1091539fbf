"""The engine: commands in, one step at a time, events out.

`step()` is plan -> batch -> forward and draw -> commit. Runs in whatever thread calls it, blocks
for one forward pass, and owns every slot of its pool; it does not know of sockets, peers or the
loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey
from common.engine.accounting import book_step
from common.engine.allocation import blocks_for
from common.engine.allocators import ALLOCATORS, AllocatorName
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
from common.engine.roster import Roster
from common.engine.runner import Drawn, Runner
from common.engine.schedulers import SCHEDULERS, SchedulerName
from common.engine.sequence import Sequence
from common.engine.step_plan import Budget, StepPlan


@dataclass(frozen=True, slots=True)
class EngineLimits:
    step_tokens: int = 512
    """Rows of one forward pass."""
    max_sequences: int = 64
    """Sequences that hold blocks at once."""
    tpot_target_ms: float = 0.0
    """Predicted time of a step with decodes that prompts may fill up; 0: that of the decodes and
    of a 128-token chunk."""
    context_tokens: int = 0
    """Longest prompt and answer together; 0: what the model can."""
    scheduler: SchedulerName = "chunked"
    allocator: AllocatorName = "paged"

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
        self._scheduler = SCHEDULERS[limits.scheduler](limits.budget(self._block_tokens))
        # A sequence that has the whole pool to itself must end, not wait for one block more.
        context = min(runner.context_tokens, cache.slots * self._block_tokens)
        self._context_tokens = min(context, limits.context_tokens or context)
        make_allocator = ALLOCATORS[limits.allocator]
        self._allocator = make_allocator(cache, self._block_tokens, self._context_tokens)
        self._roster = roster = Roster(self._allocator)
        # The roster's own collections: it changes them in place, the steps read them.
        self._jobs, self._held, self._running = roster.jobs, roster.held, roster.running
        self._events: list[EngineEvent] = []
        self.steps = 0
        self.integral = OccupancyIntegral(self._block_tokens)
        self.integral.observe(Occupancy(0, 0, 0), clock())

    @property
    def busy(self) -> bool:
        """False: step() would do nothing until the next command."""
        return bool(self._running or self._roster.waiting)

    @property
    def running(self) -> int:
        return len(self._running) + len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._roster.waiting)

    @property
    def cache(self) -> PrefixCache:
        return self._cache

    def occupancy(self) -> Occupancy:
        sequences = [*self._running, *self._held.values()]
        padding = self._scheduler.padding
        return occupancy(sequences, self._cache.used, self._block_tokens, padding)

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
        self._roster.enter(add)

    def _start(self, start: Start) -> None:
        sequence = self._roster.start(start.key)
        if sequence is None:
            return
        self._jobs[start.key].exported = start.export_from
        self._take_over(sequence, start.computed)
        self._export(sequence)

    def _deliver(self, key: AttemptKey, first: tuple[Drawn, ...]) -> None:
        sequence = self._roster.start(key)
        if sequence is None:
            return
        self._take_over(sequence, len(sequence.prompt))
        self._open_choices(sequence, first)

    def _take_over(self, sequence: Sequence, computed: int) -> None:
        """So many tokens of the started sequence lie verified in its blocks."""
        there = sequence.computed // self._block_tokens
        arrived = sequence.table[there : blocks_for(computed, self._block_tokens)]
        self._runner.to_device(arrived)
        sequence.computed = computed
        name_blocks(sequence, self._cache, self._block_tokens)

    def _drop(self, key: AttemptKey) -> None:
        job = self._roster.drop(key)
        if job is not None:
            self._events.append(Dropped(key, job.ledger))

    def step(self) -> list[EngineEvent]:
        """Compute one batch. Returns every event since the last call."""
        self._admit()
        plan = self._scheduler.plan(self._running, self._allocator)
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
        if not self._scheduler.admits(self._running, self._held):
            return
        for sequence in self._roster.admit(self._limits.max_sequences):
            cached, key = sequence.computed, sequence.key
            self._jobs[key].ledger.cached_device_tokens = cached
            slots = sequence.table[: blocks_for(len(sequence.prompt), self._block_tokens)]
            self._events.append(Held(key, tuple(slots), cached_tokens=cached))

    def _revoke_youngest(self) -> None:
        key = self._roster.revoke_youngest()
        if key is not None:
            self._events.append(Revoke(key))

    def _compute(self, plan: StepPlan) -> None:
        batch, owners = build_batch(plan.rows, plan.padding)
        started = self._clock()
        drawn = self._runner.step(batch)
        elapsed_s = self._clock() - started
        self.steps += 1
        book_step(plan, self._jobs, elapsed_s * 1e3)
        self._scheduler.observe(plan, elapsed_s)
        for sequence, count in plan.rows:
            sequence.computed += count
            name_blocks(sequence, self._cache, self._block_tokens)
            if not sequence.output:
                self._export(sequence)
        self._commit(owners, drawn[: len(owners)] if plan.padding else drawn)

    def _commit(self, owners: list[tuple[Sequence, int]], drawn: list[Drawn]) -> None:
        first: list[Drawn] = []
        for (sequence, _choice), token in zip(owners, drawn, strict=True):
            if sequence.output:
                self._append(sequence, token)
                continue
            first.append(token)
            if len(first) == sequence.params.n:
                self._end_prompt(sequence, tuple(first))
                first.clear()

    def _end_prompt(self, sequence: Sequence, first: tuple[Drawn, ...]) -> None:
        """Its last token is computed, and every choice's first one drawn."""
        if self._jobs[sequence.key].add.hand_off:
            job = self._jobs.pop(sequence.key)
            self._events.append(FirstDrawn(sequence.key, first, job.ledger))
            self._roster.leave(sequence, FinishReason.STOP)
        else:
            self._open_choices(sequence, first)

    def _open_choices(self, leader: Sequence, first: tuple[Drawn, ...]) -> None:
        """Every choice gets its first token, and its own tail block."""
        others = [
            fork(leader, choice, self._allocator, self._runner)
            for choice in choices_to_draw(leader)[1:]
        ]
        self._roster.join(others)
        for sequence, token in zip([leader, *others], first, strict=True):
            self._append(sequence, token)

    def _append(self, sequence: Sequence, drawn: Drawn) -> None:
        index = len(sequence.output)
        sequence.output.append(drawn.token)
        finish = finish_of(sequence, self._runner.eos_token_ids, self._context_tokens)
        self._events.append(Emitted(sequence.key, sequence.choice, index, drawn, finish))
        if finish is None:
            return
        self._scheduler.ended(sequence, self._running, self._cache)
        self._roster.leave(sequence, finish)
        job = self._jobs[sequence.key]
        job.unfinished -= 1
        if job.unfinished == 0:
            del self._jobs[sequence.key]
            self._events.append(Done(sequence.key, job.ledger))

    def _export(self, sequence: Sequence) -> None:
        """Report, and pin, prompt blocks that became final."""
        job = self._jobs[sequence.key]
        if job.exported is None:
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
