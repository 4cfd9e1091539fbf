"""The cost, number by number, and where it leads a whole workload."""

import heapq
from typing import Any

import pytest

from common.domain.ids import ProcessId
from common.domain.peer import Medium
from common.wire.messages.cluster import Load
from services.router.index import BlockIndex, Holder, Matches
from services.router.load import LoadBook
from services.router.placement import (
    Candidate,
    Cluster,
    Need,
    Placement,
    Stage,
    WorkerLoad,
    need_of,
)
from services.router.plan import PlanRules, plan
from services.router.policies.kv_aware import KvAware, cost
from tests.support.router_world import (
    BLOCK_TOKENS,
    POOL_BLOCKS,
    ROOT,
    key,
    process,
    prompt_of,
    submit,
    units_of,
)

WRITER = process("decode-9")


def need(blocks: int = 10, tail: int = 0) -> Need:
    return need_of(submit("r", prompt_of(blocks, tail=tail)), BLOCK_TOKENS)


def worker(name: str, device: int = 0, host: int = 0, **load: Any) -> Candidate:
    return Candidate(process(name), WorkerLoad(**load), True, device, host)


@pytest.mark.parametrize(
    ("candidate", "stage", "expected"),
    [
        (worker("a"), Stage.PREFILL, 320),
        (worker("a", device=10), Stage.PREFILL, 160),
        (worker("a", host=10), Stage.PREFILL, 200),
        (worker("a", device=6, host=10), Stage.PREFILL, 320 - 96 - 48),
        (worker("a", device=10, host=6), Stage.PREFILL, 160),
        (worker("a", pending_tokens=500), Stage.PREFILL, 820),
        (worker("a", pending_tokens=500, repeated_tokens=600.0), Stage.PREFILL, 920),
        (worker("a", pending_tokens=601, repeated_tokens=600.0), Stage.PREFILL, 921),
        (worker("a", recent_tokens=300.0), Stage.PREFILL, 320),
        (worker("a", context_blocks=7), Stage.PREFILL, 320),
        (worker("a", device=10, context_blocks=7), Stage.DECODE, 160 + 224),
    ],
)
def test_the_cost_is_the_documented_formula(
    candidate: Candidate, stage: Stage, expected: float
) -> None:
    assert cost(stage, need(), candidate) == expected


def test_it_goes_where_the_prefix_is_unless_the_queue_there_is_longer_than_the_prefix() -> None:
    policy = KvAware(lambda n: 0)
    cold = worker("cold")
    warm = worker("warm", device=16, pending_tokens=255)
    busy = worker("warm", device=16, pending_tokens=257)
    assert policy.choose(Stage.PREFILL, need(), [cold, warm]) is warm
    assert policy.choose(Stage.PREFILL, need(), [cold, busy]) is cold


def test_equal_costs_go_to_the_least_loaded() -> None:
    policy = KvAware(lambda n: 0)
    one, two = worker("one", sequences=2), worker("two", sequences=1)
    assert policy.choose(Stage.PREFILL, need(), [one, two]) is two


class Fleet:
    """Workers of one stage that compute one prompt after the other and then write for a while.

    The router's index hears of a prompt when it is computed. A worker itself finds whatever was
    given to it before."""

    host_tier = False
    """A kvstore holds what any worker has computed."""

    def __init__(self, workers: int, kind: str, tokens_a_second: float, writing_s: float) -> None:
        self.kind = kind
        self.names = [process(f"{kind}-{n}") for n in range(workers)]
        self.index, self.book, self.policy = BlockIndex(100_000), LoadBook(), KvAware(lambda n: 0)
        self.truth = BlockIndex(100_000)
        for name in [*self.names, WRITER]:
            self.book.report(name, Load(blocks_total=POOL_BLOCKS))
        self.rate, self.writing_s = tokens_a_second, writing_s
        self.free_at = dict.fromkeys(self.names, 0.0)
        self.shares = dict.fromkeys(self.names, 0)
        self.hit_tokens = self.tokens = 0

    def place(self, number: int, prompt: list[int], now: float) -> tuple[ProcessId, float]:
        """Who computes it, and when that is done."""
        needed = need_of(submit("r", prompt), BLOCK_TOKENS)
        matches = self.index.match(needed.units)
        host = max((device_units(matches, name) for name in self.names), default=0)
        seen = tuple(
            Candidate(
                name,
                self.book.view(name, now),
                True,
                device_units(matches, name),
                host if self.host_tier else 0,
            )
            for name in self.names
        )
        writer = Candidate(WRITER, self.book.view(WRITER, now))
        cluster = Cluster(seen, ()) if self.kind == "decode" else Cluster((writer,), seen)
        placement = plan(needed, cluster, self.policy, PlanRules(max_sequences=1_000))
        assert isinstance(placement, Placement)
        self.book.place(key(str(number)), placement, now)
        where = placement.prefill or placement.writer
        self.shares[where] += 1
        hit = 16 * device_units(self.truth.match(needed.units), where)
        self.truth.store(where, Medium.DEVICE, ROOT, needed.units)
        self.hit_tokens += hit
        self.tokens += len(prompt)
        self.free_at[where] = max(now, self.free_at[where]) + (len(prompt) - hit) / self.rate
        return where, self.free_at[where]

    def serve(self, prompts: list[list[int]], at_once: int, pause_s: float = 0.0) -> None:
        """A closed loop of `at_once` clients."""
        todo = iter(range(len(prompts)))
        events = [(0.0, next(todo), "submit", WRITER) for _ in range(at_once)]
        while events:
            now, number, what, where = heapq.heappop(events)
            match what:
                case "submit":
                    where, done = self.place(number, prompts[number], now)
                    heapq.heappush(events, (done, number, "done", where))
                    heapq.heappush(events, (done + self.writing_s, number, "end", where))
                case "done":
                    self.index.store(where, Medium.DEVICE, ROOT, units_of(prompts[number]))
                    self.book.prompt_done(key(str(number)), now)
                case "end":
                    self.book.end(key(str(number)), now)
                    following = next(todo, None)
                    if following is not None:
                        heapq.heappush(events, (now + pause_s, following, "submit", WRITER))


def device_units(matches: Matches, name: ProcessId) -> int:
    return matches.get(Holder(name, Medium.DEVICE), 0)


@pytest.mark.parametrize("kind", ["decode", "prefill"])
@pytest.mark.parametrize("at_once", [1, 2, 4, 16])
def test_a_shared_prefix_neither_piles_up_on_one_worker_nor_is_wasted(
    kind: str, at_once: int
) -> None:
    prompts = [prompt_of(8) + prompt_of(1, label=100 + n) for n in range(200)]
    fleet = Fleet(4, kind, tokens_a_second=4_000, writing_s=0.05)
    fleet.serve(prompts, at_once)
    assert sum(fleet.shares.values()) == 200
    assert max(fleet.shares.values()) <= 0.4 * 200
    assert fleet.hit_tokens >= 0.8 * fleet.tokens


@pytest.mark.parametrize("kind", ["decode", "prefill"])
@pytest.mark.parametrize("blocks", [2, 8, 64])
@pytest.mark.parametrize("host_tier", [False, True])
def test_the_second_of_a_prefix_goes_at_once_where_the_first_was(
    kind: str, blocks: int, host_tier: bool
) -> None:
    fleet = Fleet(2, kind, tokens_a_second=4_000, writing_s=0.0)
    fleet.host_tier = host_tier
    fleet.serve([prompt_of(blocks) + prompt_of(1, label=n) for n in (1, 2)], at_once=1)
    assert sorted(fleet.shares.values()) == [0, 2]


def test_quiet_conversations_stay_where_their_history_is() -> None:
    histories = [prompt_of(20, label=n) for n in range(8)]
    turns = [histories[n % 8] + prompt_of(1 + n // 8, label=50 + n % 8) for n in range(80)]
    fleet = Fleet(4, "decode", tokens_a_second=4_000, writing_s=0.2)
    fleet.serve(turns, at_once=2, pause_s=0.5)
    assert fleet.hit_tokens >= 0.8 * fleet.tokens
