"""Batches that nobody joins, and what those who have ended cost."""

from common.engine.batch import build_batch
from common.engine.engine import EngineLimits
from common.engine.job import Drop, Emitted, Held
from common.engine.mock import MockRunner, expected_output
from common.engine.runner import Batch, Drawn
from common.engine.schedulers.static import Static
from common.engine.step_plan import Budget, preempt
from tests.support.engines import Bench, greedy, key, prompt_of
from tests.support.sequences import BLOCK_TOKENS, cache_of, decoding, paged, running

LIMITS = EngineLimits(scheduler="static")


class Watching(MockRunner):
    """Notes the rows of every step."""

    def __init__(self) -> None:
        super().__init__(32)
        self.rows: list[int] = []

    def step(self, batch: Batch) -> list[Drawn]:
        self.rows.append(len(batch.tokens))
        return super().step(batch)


def test_a_batch_costs_its_rows_until_the_last_has_ended() -> None:
    runner = Watching()
    bench = Bench(limits=LIMITS, runner=runner)
    for index, tokens in enumerate((2, 6, 9)):
        bench.add(f"r{index}", prompt_of(10 + index, seed=index), greedy(tokens))
    bench.run()
    assert runner.rows == [10 + 11 + 12, *[3] * 8]
    for index, tokens in enumerate((2, 6, 9)):
        expected = expected_output(prompt_of(10 + index, seed=index), greedy(tokens))
        assert bench.output(f"r{index}") == expected
        assert bench.done(f"r{index}").ledger.decode_steps == tokens - 1
    assert bench.cache.used == 0


def test_clients_have_their_end_at_once_and_the_next_batch_waits_for_all() -> None:
    bench = Bench(limits=LIMITS)
    bench.add("short", prompt_of(10), greedy(2))
    bench.add("long", prompt_of(10, seed=1), greedy(30))
    bench.step()
    bench.add("next", prompt_of(10, seed=2), greedy(2))
    told: dict[str, int] = {}
    for step in range(40):
        for event in bench.step():
            if isinstance(event, Held):
                told[event.key.request] = step
            if isinstance(event, Emitted) and event.finish:
                told[f"{event.key.request} ends"] = step
    assert told["short ends"] == 1
    assert told["long ends"] == 29
    assert told["next"] == 30


def test_padding_is_no_live_token_and_not_reserved_either() -> None:
    bench = Bench(limits=LIMITS)
    bench.add("short", prompt_of(40), greedy(1))
    bench.add("long", prompt_of(60, seed=1), greedy(30))
    bench.step()
    bench.step()
    now = bench.engine.occupancy()
    assert (now.blocks_used, now.blocks_empty, now.tokens_live) == (4, 0, 60)
    assert bench.engine.running == 1


def test_padding_that_shares_a_living_prefix_is_live_as_far_as_that_goes() -> None:
    bench = Bench(limits=LIMITS)
    bench.add("first", prompt_of(64), greedy(1))
    bench.run()
    bench.add("short", prompt_of(70), greedy(2))
    bench.add("long", prompt_of(80), greedy(30))
    while "short" not in [
        e.key.request for e in bench.events if isinstance(e, Emitted) and e.finish
    ]:
        bench.step()
    now = bench.engine.occupancy()
    assert (now.blocks_used, now.tokens_live) == (4, 81)


def test_computing_a_last_row_again_changes_no_byte() -> None:
    cache = cache_of(8)
    runner = MockRunner(BLOCK_TOKENS)
    memory = bytearray(8 * runner.layout.block_bytes)
    runner.bind(memoryview(memory), 8, runner.layout.block_bytes)
    sequence = running(cache, "a", 20)
    batch, owners = build_batch([(sequence, 20)])
    runner.step(batch)
    assert owners == [(sequence, 0)]
    sequence.computed, sequence.output = 20, [5]
    before = bytes(memory)
    batch, owners = build_batch([], [sequence])
    assert (batch.tokens.tolist(), batch.positions.tolist()) == ([sequence.prompt[-1]], [19])
    assert len(runner.step(batch)) == 1
    assert owners == []
    assert bytes(memory) == before
    assert sequence.computed == 20


def test_padding_gives_way_before_anybody_is_preempted_who_ended_first_goes_first() -> None:
    cache = cache_of(5)
    scheduler = Static(Budget(64, BLOCK_TOKENS))
    stream = decoding(cache, "stream", 16)
    gone = [decoding(cache, f"gone{at}", 20, arrival=1 + at) for at in range(2)]
    everybody = [stream, *gone]
    for sequence in gone:
        scheduler.ended(sequence, everybody, cache)
        cache.release(sequence.table)
        everybody.remove(sequence)
    assert cache.available == 0
    plan = scheduler.plan([stream], paged(cache))
    assert (plan.rows, plan.preempted) == ([(stream, 1)], [])
    assert [pad.key.request for pad in plan.padding] == ["gone1"]
    assert (len(stream.table), cache.available) == (2, 1)
    preempt(stream, cache)
    plan = scheduler.plan([stream], paged(cache))
    assert (plan.rows, plan.padding, cache.available) == ([(stream, 17)], (), 3)


def test_rows_and_padding_together_are_no_more_than_a_step() -> None:
    cache = cache_of(20)
    scheduler = Static(Budget(4, BLOCK_TOKENS))
    sequences = [decoding(cache, f"d{at}", 5, arrival=at) for at in range(7)]
    for sequence in sequences[:4]:
        scheduler.ended(sequence, sequences, cache)
    plan = scheduler.plan(sequences[4:], paged(cache))
    assert (len(plan.rows), len(plan.padding), len(scheduler.padding)) == (3, 1, 4)


def test_prompts_of_a_batch_come_first_and_are_not_padded() -> None:
    cache = cache_of(20)
    scheduler = Static(Budget(64, BLOCK_TOKENS))
    gone, stream = decoding(cache, "gone", 5), decoding(cache, "stream", 5, arrival=1)
    prompt = running(cache, "prompt", 30, arrival=2)
    scheduler.ended(gone, [gone, stream, prompt], cache)
    plan = scheduler.plan([stream, prompt], paged(cache))
    assert (plan.rows, plan.padding) == ([(prompt, 30)], ())


def test_it_admits_only_when_nothing_runs_or_is_held() -> None:
    scheduler = Static(Budget(64, BLOCK_TOKENS))
    assert scheduler.admits([], {})
    assert not scheduler.admits([1], {})
    assert not scheduler.admits([], {1: 2})


def test_a_batch_whose_last_was_cancelled_leaves_nothing() -> None:
    bench = Bench(limits=LIMITS)
    bench.add("short", prompt_of(10), greedy(1))
    bench.add("long", prompt_of(50, seed=1), greedy(30))
    for _ in range(4):
        bench.step()
    assert bench.cache.used > 2
    bench.engine.handle(Drop(key("long")))
    bench.step()
    assert bench.cache.used == 0
    bench.add("next", prompt_of(10), greedy(3))
    bench.run()
    assert bench.output("next") == expected_output(prompt_of(10), greedy(3))
