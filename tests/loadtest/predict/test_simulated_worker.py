from collections.abc import Sequence

import pytest

from common.domain.ids import AttemptKey, RequestId
from common.domain.sampling import SamplingParams
from common.engine.bench.costs.step_law import prompt_shape
from common.engine.job import Add, Done, Emitted, EngineEvent, Held, Start
from common.kv.hashing import chain_root
from loadtest.predict.shared_machine import SharedMachine
from loadtest.predict.simulated_worker import SimulatedWorker
from loadtest.predict.virtual_clock import VirtualClock
from tests.support.predicted import LAW, costs, worker

KEY = AttemptKey(RequestId("one"), 0)
PARAMS = SamplingParams(seed=0, max_tokens=1, temperature=0.0, ignore_eos=True)


def test_events_come_when_the_step_is_over_and_commands_between_steps() -> None:
    clock, came = VirtualClock(), list[tuple[float, EngineEvent]]()

    def deliver(events: Sequence[EngineEvent]) -> None:
        for event in events:
            came.append((clock.now, event))
            if isinstance(event, Held):
                made.submit(Start(event.key, event.cached_tokens))

    made = SimulatedWorker(worker("decode-0"), clock, SharedMachine(costs()), deliver)
    root = chain_root("test")
    late = AttemptKey(RequestId("late"), 0)
    clock.at(1.0, lambda: made.submit(Add(KEY, list(range(100)), [], root, PARAMS)))
    clock.at(1.001, lambda: made.submit(Add(late, list(range(50)), [], root, PARAMS)))
    clock.run()
    took = LAW.ms(prompt_shape(100)) * 1e-3
    at = {(type(event), event.key): at for at, event in came if isinstance(event, Held | Done)}
    assert at[Held, KEY] == 1.0
    assert at[Done, KEY] == pytest.approx(1.0 + took)
    assert at[Held, late] == pytest.approx(1.0 + took)
    assert made.busy_s == pytest.approx(took + LAW.ms(prompt_shape(50)) * 1e-3)
    assert not made.busy
    assert sum(isinstance(event, Emitted) for _at, event in came) == 2


def test_who_waits_for_room_does_not_keep_the_clock_from_moving() -> None:
    clock, held = VirtualClock(), list[tuple[float, AttemptKey]]()

    def deliver(events: Sequence[EngineEvent]) -> None:
        held.extend((clock.now, event.key) for event in events if isinstance(event, Held))

    made = SimulatedWorker(worker("decode-0", slots=4), clock, SharedMachine(costs()), deliver)
    root = chain_root("test")
    other = AttemptKey(RequestId("other"), 0)
    for key in (KEY, other):
        made.submit(Add(key, list(range(100)), [], root, PARAMS))
    clock.at(0.5, lambda: made.submit(Start(KEY, 0)))
    clock.run()
    assert [key for _at, key in held] == [KEY, other]
    assert held[1][0] == pytest.approx(0.5 + LAW.ms(prompt_shape(100)) * 1e-3, abs=0.06)
