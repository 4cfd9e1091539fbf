"""A mock engine in the caller's thread, driven command by command."""

from collections.abc import Sequence

import numpy as np

from common.domain.ids import AttemptKey, RequestId
from common.domain.sampling import SamplingParams
from common.engine.engine import Engine, EngineLimits
from common.engine.job import Add, Computed, Done, Emitted, EngineEvent, FirstDrawn, Held, Start
from common.engine.mock import MockRunner
from common.engine.prefix_cache import PrefixCache
from common.engine.runner import Runner
from common.kv.hashing import chain_root, extend_chain

ROOT = chain_root("mock")


def greedy(max_tokens: int, n: int = 1, **changes: object) -> SamplingParams:
    fields: dict[str, object] = {"seed": 7, "max_tokens": max_tokens, "n": n, "temperature": 0.0}
    return SamplingParams(**(fields | changes))  # type: ignore[arg-type]


def key(name: str, attempt: int = 0) -> AttemptKey:
    return AttemptKey(RequestId(name), attempt)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


class Bench:
    """An engine, its memory, and everything it ever said."""

    def __init__(
        self,
        slots: int = 64,
        block_tokens: int = 32,
        limits: EngineLimits | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.runner = runner or MockRunner(block_tokens)
        self.slot_bytes = self.runner.layout.block_bytes
        self.memory = bytearray(slots * self.slot_bytes)
        self.runner.bind(memoryview(self.memory), slots, self.slot_bytes)
        self.reused: list[int] = []
        self.cache = PrefixCache(slots, self.reused.append)
        self.now = 0.0
        self.engine = Engine(self.runner, self.cache, limits or EngineLimits(), self.clock)
        self.events: list[EngineEvent] = []
        self.exports: dict[AttemptKey, int | None] = {}

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    def add(
        self,
        name: str,
        prompt: Sequence[int],
        params: SamplingParams,
        hand_off: bool = False,
        export_from: int | None = None,
    ) -> None:
        units = extend_chain(ROOT, prompt)
        self.exports[key(name)] = export_from
        self.engine.handle(Add(key(name), list(prompt), units, ROOT, params, hand_off))

    def step(self) -> list[EngineEvent]:
        """One step; every reservation is started at once, as an aggregated worker does."""
        fresh = self.engine.step()
        self.events += fresh
        for event in fresh:
            if isinstance(event, Held):
                self.engine.handle(
                    Start(event.key, event.cached_tokens, self.exports.get(event.key))
                )
        self.cache.check_invariants()
        return fresh

    def run(self, limit: int = 10_000) -> None:
        """Until nothing is left to do."""
        for _ in range(limit):
            self.step()
            if not self.engine.running and not self.engine.waiting:
                return
        raise AssertionError("the engine never came to rest")

    def output(self, name: str, choice: int = 0) -> list[int]:
        emitted = [
            event
            for event in self.events
            if isinstance(event, Emitted) and event.key == key(name) and event.choice == choice
        ]
        assert [event.index for event in emitted] == list(range(len(emitted)))
        return [event.drawn.token for event in emitted]

    def done(self, name: str) -> Done:
        (event,) = [e for e in self.events if isinstance(e, Done) and e.key == key(name)]
        return event

    def first_drawn(self, name: str) -> FirstDrawn:
        (event,) = [e for e in self.events if isinstance(e, FirstDrawn) and e.key == key(name)]
        return event

    def computed(self, name: str) -> list[Computed]:
        return [e for e in self.events if isinstance(e, Computed) and e.key == key(name)]
