"""Our engine, scheduler and prefix cache included, as the workload's `Engine`."""

import time
from collections.abc import Iterator

from common.domain.ids import AttemptKey, RequestId
from common.domain.sampling import SamplingParams
from common.engine.bench.workload import EndedEarly, Progress
from common.engine.engine import Engine, EngineLimits
from common.engine.job import Add, Drop, Emitted, EngineEvent, Held, Refused, Start
from common.engine.prefix_cache import PrefixCache
from common.engine.runner import Runner
from common.kv.hashing import chain_root, extend_chain

_ROOT = chain_root("bench")


class EngineStreams:
    """In the caller's thread; its runner is bound to a pool of `slots` slots already."""

    def __init__(self, runner: Runner, slots: int) -> None:
        self.cached_tokens = 0
        """What the prefix cache had of the prompt that was admitted last."""
        cache = PrefixCache(slots, lambda slot: None)
        self._engine = Engine(runner, cache, EngineLimits(), time.perf_counter)

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        params = SamplingParams(seed=0, max_tokens=tokens, temperature=0.0, ignore_eos=True)
        units = extend_chain(_ROOT, prompt)
        self._engine.handle(Add(_key(name), prompt, units, _ROOT, params))

    def step(self) -> list[Progress]:
        return list(self._progress(self._engine.step()))

    def drop(self, name: str) -> None:
        self._engine.handle(Drop(_key(name)))

    def _progress(self, events: list[EngineEvent]) -> Iterator[Progress]:
        for event in events:
            if isinstance(event, Held):
                self.cached_tokens = event.cached_tokens
                self._engine.handle(Start(event.key, event.cached_tokens))
            elif isinstance(event, Emitted):
                yield Progress(event.key.request, 1, finished=event.finish is not None)
            elif isinstance(event, Refused):
                raise EndedEarly(f"{event.key} was refused: {event.message}")


def _key(name: str) -> AttemptKey:
    return AttemptKey(RequestId(name), 0)
