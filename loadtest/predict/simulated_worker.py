"""The real engine on virtual time: commands between steps, events when a step is over.

As the engine's thread does, it takes what is in its inbox, computes a step, and tells what came of
it when the step has ended. Planning, allocation and caching are the product's own code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.engine.engine import Engine, EngineLimits
from common.engine.host import STALL_PAUSE_S
from common.engine.job import Command, EngineEvent
from common.engine.prefix_cache import PrefixCache
from common.engine.step_cost import StepShape
from loadtest.predict.shared_machine import SharedMachine
from loadtest.predict.simulated_runner import SimulatedRunner
from loadtest.predict.virtual_clock import VirtualClock

CONTEXT_TOKENS = 8192
"""Of the simulated model."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One process."""

    name: str
    limits: EngineLimits
    block_tokens: int
    slots: int


class SimulatedWorker:
    def __init__(
        self,
        plan: WorkerPlan,
        clock: VirtualClock,
        machine: SharedMachine,
        deliver: Callable[[Sequence[EngineEvent]], None],
    ) -> None:
        self.plan = plan
        self.busy_s = 0.0
        """In steps, so far."""
        self._clock = clock
        self._machine = machine
        self._deliver = deliver
        self._inbox: list[Command] = []
        self._spent_s = 0.0
        self._stepping = False
        self._woken = False
        runner = SimulatedRunner(plan.block_tokens, CONTEXT_TOKENS, self._spend)
        cache = PrefixCache(plan.slots, lambda slot: None)
        self.engine = Engine(runner, cache, plan.limits, lambda: clock.now + self._spent_s)
        machine.join(self)

    @property
    def busy(self) -> bool:
        return self._stepping or self.engine.busy

    def submit(self, command: Command) -> None:
        self._inbox.append(command)
        if not self._stepping:
            self._wake(0.0)

    def _spend(self, shape: StepShape) -> None:
        self._spent_s += self._machine.begin(self, shape)

    def _wake(self, after_s: float) -> None:
        if not self._woken:
            self._woken = True
            self._clock.after(after_s, self._step)

    def _step(self) -> None:
        self._woken = False
        inbox, self._inbox = self._inbox, []
        for command in inbox:
            self.engine.handle(command)
        self._stepping, before = True, self.engine.steps
        events = self.engine.step()
        spent_s, self._spent_s = self._spent_s, 0.0
        self.busy_s += spent_s
        # A step that computed nothing would compute nothing at once: every sequence waits for room.
        pause_s = STALL_PAUSE_S if self.engine.steps == before else 0.0
        self._clock.after(spent_s, lambda: self._end(events, pause_s))

    def _end(self, events: list[EngineEvent], pause_s: float) -> None:
        self._stepping = False
        self._machine.end(self)
        self._deliver(events)
        if self._inbox:
            self._wake(0.0)
        elif self.engine.busy:
            self._wake(pause_s)
