"""Loads of requests for engines that differ in one thing, and what each request must get."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from common.engine.engine import EngineLimits
from common.engine.job import Drop
from common.engine.mock import MockRunner, expected_output
from common.engine.runner import Batch, Drawn
from common.engine.sequence import State
from tests.support.engines import Bench, greedy, key, prompt_of

BLOCK_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Request:
    """Prompts of equal seed begin alike."""

    prompt: int
    max_tokens: int
    n: int = 1
    seed: int = 0
    steps_before: int = 1

    def expected(self, choice: int) -> list[int]:
        prompt = prompt_of(self.prompt, self.seed)
        return expected_output(prompt, greedy(self.max_tokens, self.n, temperature=0.5), choice)


def loads(most: int = 7) -> st.SearchStrategy[list[Request]]:
    one = st.builds(
        Request,
        prompt=st.integers(1, 80),
        max_tokens=st.integers(1, 40),
        n=st.integers(1, 3),
        seed=st.integers(0, 3),
        steps_before=st.integers(0, 4),
    )
    return st.lists(one, min_size=1, max_size=most)


class CountingRunner(MockRunner):
    """Notes the rows of every step."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        super().__init__(block_tokens)
        self.rows: list[int] = []

    def step(self, batch: Batch) -> list[Drawn]:
        self.rows.append(len(batch.tokens))
        return super().step(batch)


def enter(bench: Bench, name: str, request: Request) -> None:
    params = greedy(request.max_tokens, request.n, temperature=0.5)
    bench.add(name, prompt_of(request.prompt, request.seed), params)


def bench_of(limits: EngineLimits, slots: int) -> Bench:
    return Bench(slots, BLOCK_TOKENS, limits, CountingRunner())


def served(bench: Bench, requests: Sequence[Request]) -> list[list[list[int]]]:
    """Every choice of every request, which arrive while others run."""
    for index, request in enumerate(requests):
        enter(bench, f"r{index}", request)
        for _ in range(request.steps_before):
            bench.step()
    bench.run()
    return [
        [bench.output(f"r{index}", choice) for choice in range(request.n)]
        for index, request in enumerate(requests)
    ]


def all_expected(requests: Sequence[Request]) -> list[list[list[int]]]:
    return [[request.expected(choice) for choice in range(request.n)] for request in requests]


def states(bench: Bench) -> set[State]:
    engine = bench.engine
    everybody = [*engine._running, *engine._held.values(), *engine._roster.waiting]
    return {sequence.state for sequence in everybody}


def drop_all(bench: Bench, count: int) -> None:
    """And the step that every command is followed by."""
    for index in range(count):
        bench.engine.handle(Drop(key(f"r{index}")))
    bench.engine.step()
