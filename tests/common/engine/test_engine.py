"""The engine on a mock model: any wrong block shows as a wrong token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.engine.engine import EngineLimits
from common.engine.job import (
    Add,
    CacheChanged,
    Computed,
    Contents,
    Deliver,
    Drop,
    Emitted,
    Held,
    Refused,
    ResetCache,
    Revoke,
    Start,
    Unpin,
    WantSnapshot,
)
from common.engine.mock import MockRunner, expected_output
from common.kv.hashing import extend_chain
from tests.support.engines import ROOT, Bench, greedy, key, prompt_of


@pytest.mark.parametrize("block_tokens", [16, 32, 64])
@pytest.mark.parametrize("length", [1, 15, 16, 31, 32, 33, 64, 129])
def test_tokens_are_right_at_every_border_and_block_size(length: int, block_tokens: int) -> None:
    bench = Bench(block_tokens=block_tokens)
    params = greedy(40)
    bench.add("a", prompt_of(length), params)
    bench.run()
    assert bench.output("a") == expected_output(prompt_of(length), params)
    assert bench.done("a").ledger.prefill_computed_tokens == length
    assert bench.cache.used == 0


def test_chunks_give_the_same_tokens_and_are_counted() -> None:
    bench = Bench(limits=EngineLimits(step_tokens=16))
    params = greedy(8)
    bench.add("a", prompt_of(100), params)
    bench.run()
    assert bench.output("a") == expected_output(prompt_of(100), params)
    assert bench.done("a").ledger.prefill_chunks == 7


def test_a_running_decode_goes_first_when_a_prompt_arrives() -> None:
    bench = Bench(limits=EngineLimits(step_tokens=16))
    bench.add("a", prompt_of(8), greedy(50))
    for _ in range(3):
        bench.step()
    bench.add("b", prompt_of(200, seed=1), greedy(5))
    bench.step()
    for _ in range(10):
        fresh = bench.step()
        assert any(isinstance(e, Emitted) and e.key == key("a") for e in fresh)
    bench.run()
    assert bench.output("b") == expected_output(prompt_of(200, seed=1), greedy(5))


def test_a_repeated_prompt_computes_only_what_no_whole_block_covers() -> None:
    for length, cached in [(31, 0), (32, 0), (33, 32), (64, 32), (65, 64), (100, 96)]:
        bench = Bench()
        params = greedy(4)
        bench.add("a", prompt_of(length), params)
        bench.run()
        bench.add("b", prompt_of(length), params)
        bench.run()
        assert bench.output("b") == bench.output("a") == expected_output(prompt_of(length), params)
        ledger = bench.done("b").ledger
        assert ledger.cached_device_tokens == cached
        assert ledger.prefill_computed_tokens == length - cached


def test_generated_blocks_serve_the_next_turn() -> None:
    bench = Bench()
    bench.add("a", prompt_of(30), greedy(70))
    bench.run()
    longer = prompt_of(30) + bench.output("a")
    bench.add("b", longer, greedy(4))
    bench.run()
    # The last token's KV was never computed, so of 100 tokens 99 lie in blocks, 96 in whole ones.
    assert bench.done("b").ledger.cached_device_tokens == 96
    assert bench.output("b") == expected_output(longer, greedy(4))


def test_preemption_changes_no_token() -> None:
    bench = Bench(slots=8, block_tokens=16)
    for index in range(4):
        bench.add(f"r{index}", prompt_of(20, seed=index), greedy(60))
    bench.run()
    for index in range(4):
        assert bench.output(f"r{index}") == expected_output(prompt_of(20, seed=index), greedy(60))
    ledgers = [bench.done(f"r{index}").ledger for index in range(4)]
    assert sum(ledger.preemptions for ledger in ledgers) > 0
    assert sum(ledger.recomputed_tokens for ledger in ledgers) > 0
    assert all(ledger.prefill_computed_tokens == 20 for ledger in ledgers)


@pytest.mark.parametrize("length", [5, 32, 50])
def test_choices_share_the_prompt_and_differ_by_number(length: int) -> None:
    bench = Bench()
    params = greedy(40, n=3, temperature=1.0)
    bench.add("a", prompt_of(length), params)
    bench.run()
    outputs = [bench.output("a", choice) for choice in range(3)]
    for choice, output in enumerate(outputs):
        assert output == expected_output(prompt_of(length), params, choice)
    assert len({tuple(output) for output in outputs}) == 3
    assert bench.done("a").ledger.prefill_computed_tokens == length
    assert bench.cache.used == 0


def test_choices_without_room_for_their_tails_still_finish() -> None:
    bench = Bench(slots=5, block_tokens=16)
    params = greedy(30, n=4, temperature=1.0)
    bench.add("a", prompt_of(20), params)
    bench.run()
    for choice in range(4):
        assert bench.output("a", choice) == expected_output(prompt_of(20), params, choice)


def test_ends_at_stop_token_length_and_context() -> None:
    params = greedy(40)
    tokens = expected_output(prompt_of(10), params)
    stop = tokens[5]
    bench = Bench()
    bench.add("a", prompt_of(10), greedy(40, stop_token_ids=(stop,)))
    bench.add("b", prompt_of(10, seed=1), greedy(3))
    bench.run()
    ends = {e.key: e.finish for e in bench.events if isinstance(e, Emitted) and e.finish}
    assert bench.output("a") == tokens[: tokens.index(stop) + 1]
    assert ends == {key("a"): FinishReason.STOP, key("b"): FinishReason.LENGTH}
    small = Bench(runner=MockRunner(32, context_tokens=16))
    small.add("c", prompt_of(10), greedy(100))
    small.run()
    assert len(small.output("c")) == 6


def test_a_prompt_larger_than_the_pool_is_refused_and_others_are_served() -> None:
    bench = Bench(slots=10, block_tokens=16)
    bench.add("big", prompt_of(11 * 16), greedy(4))
    bench.add("small", prompt_of(10), greedy(4))
    bench.run()
    (refused,) = [e for e in bench.events if isinstance(e, Refused)]
    assert refused.code is ErrorCode.CAPACITY
    assert "10" in refused.message
    assert bench.output("small") == expected_output(prompt_of(10), greedy(4))


def test_hand_off_exports_every_block_as_it_becomes_final_and_the_tail_last() -> None:
    bench = Bench(limits=EngineLimits(step_tokens=64))
    bench.add("a", prompt_of(150), greedy(9, n=2), hand_off=True, export_from=0)
    bench.run()
    exports = bench.computed("a")
    assert [event.first for event in exports] == [0, 2, 4]
    assert [event.last for event in exports] == [False, False, True]
    slots = [slot for event in exports for slot in event.slots]
    assert len(slots) == 5
    first = bench.first_drawn("a")
    assert [drawn.token for drawn in first.first] == [
        expected_output(prompt_of(150), greedy(9), choice)[0] for choice in range(2)
    ]
    assert bench.cache.used == 5, "exported blocks stay pinned"
    bench.engine.handle(Unpin(tuple(slots)))
    assert bench.cache.used == 0


def test_hand_off_of_a_cached_prefix_exports_it_at_once() -> None:
    bench = Bench()
    bench.add("warm", prompt_of(100), greedy(1))
    bench.run()
    bench.add("a", prompt_of(100), greedy(9), hand_off=True, export_from=1)
    bench.run()
    exports = bench.computed("a")
    assert [(event.first, len(event.slots)) for event in exports] == [(1, 2), (3, 1)]


def test_delivered_kv_decodes_to_the_right_tokens() -> None:
    source, target = Bench(), Bench()
    params = greedy(30, n=2, temperature=0.8)
    source.add("a", prompt_of(75), params, hand_off=True, export_from=0)
    source.run()
    slots = [slot for event in source.computed("a") for slot in event.slots]
    target.engine.handle(
        Add(key("a"), prompt_of(75), extend_chain(ROOT, prompt_of(75)), ROOT, params)
    )
    (held,) = [event for event in target.engine.step() if isinstance(event, Held)]
    size = target.slot_bytes
    for mine, theirs in zip(held.slots, slots, strict=True):
        target.memory[mine * size : (mine + 1) * size] = source.memory[
            theirs * size : (theirs + 1) * size
        ]
    target.engine.handle(Deliver(key("a"), source.first_drawn("a").first))
    target.run()
    for choice in range(2):
        assert target.output("a", choice) == expected_output(prompt_of(75), params, choice)
    assert target.done("a").ledger.prefill_computed_tokens == 0


def test_a_held_job_can_start_from_what_arrived() -> None:
    bench = Bench()
    bench.add("warm", prompt_of(64), greedy(1))
    bench.run()
    blocks = {slot: bytes(bench.memory) for slot in ()}
    assert not blocks
    other = Bench()
    other.engine.handle(
        Add(key("a"), prompt_of(90), extend_chain(ROOT, prompt_of(90)), ROOT, greedy(6))
    )
    (held,) = [event for event in other.engine.step() if isinstance(event, Held)]
    warm = bench.cache.match([extend_chain(ROOT, prompt_of(64))[1]])
    size = other.slot_bytes
    other.memory[held.slots[0] * size : (held.slots[0] + 1) * size] = bench.memory[
        warm[0] * size : (warm[0] + 1) * size
    ]
    other.engine.handle(Start(key("a"), 32))
    other.run()
    # Prompts of equal seed share their beginning.
    assert prompt_of(90)[:64] == prompt_of(64)
    assert other.output("a") == expected_output(prompt_of(90), greedy(6))
    assert other.done("a").ledger.prefill_computed_tokens == 58


def test_dropped_in_any_state_nothing_is_left() -> None:
    bench = Bench(limits=EngineLimits(step_tokens=16, max_sequences=2))
    for name in ("running", "prefilling", "waiting"):
        bench.add(name, prompt_of(100, seed=len(name)), greedy(1000))
        bench.step()
    bench.engine.handle(Add(key("held"), prompt_of(8), [], ROOT, greedy(5)))
    bench.engine.step()
    for name in ("running", "prefilling", "waiting", "held", "unknown"):
        bench.engine.handle(Drop(key(name)))
    assert bench.engine.running == bench.engine.waiting == 0
    assert bench.cache.used == 0


def test_a_starved_sequence_revokes_the_youngest_reservation() -> None:
    bench = Bench(slots=4, block_tokens=16)
    bench.add("a", prompt_of(30), greedy(30))
    bench.step()
    bench.step()
    bench.engine.handle(Add(key("held"), prompt_of(16), [], ROOT, greedy(5)))
    held = revoked = False
    for _ in range(40):
        fresh = bench.engine.step()
        bench.events += fresh
        held = held or any(isinstance(e, Held) for e in fresh)
        if any(isinstance(e, Revoke) for e in fresh):
            revoked = True
            bench.engine.handle(Drop(key("held")))
    assert held
    assert revoked
    assert bench.output("a") == expected_output(prompt_of(30), greedy(30))


def test_cache_changes_add_up_to_the_snapshot() -> None:
    bench = Bench(slots=8, block_tokens=32)
    for index in range(6):
        bench.add(f"r{index}", prompt_of(90, seed=index), greedy(10))
        bench.run()
    known: set[bytes] = set()
    for event in bench.events:
        if isinstance(event, CacheChanged):
            for stored in event.stored:
                known |= set(stored.units)
            known -= set(event.removed)
    bench.engine.handle(WantSnapshot())
    (contents,) = [e for e in bench.engine.step() if isinstance(e, Contents)]
    assert known == {unit for stored in contents.stored for unit in stored.units}
    assert known
    bench.engine.handle(ResetCache())
    assert bench.cache.cached == 0


def test_waste_is_the_empty_part_of_the_last_block() -> None:
    bench = Bench(block_tokens=16)
    bench.add("a", prompt_of(24), greedy(200))
    bench.run()
    # Token counts run over 24..223: on average 8.5 of 16 slots of one block are empty.
    assert 0.03 < bench.engine.integral.waste < 0.09
    assert bench.engine.occupancy().blocks_used == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 80), st.integers(1, 40), st.integers(1, 3), st.integers(0, 3)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([16, 48, 512]),
    st.integers(9, 30),
)
def test_any_load_gives_every_request_its_own_tokens(
    requests: list[tuple[int, int, int, int]], step_tokens: int, slots: int
) -> None:
    """Prompts of equal seed share prefixes; small pools preempt; chunks cut anywhere."""
    bench = Bench(slots=slots, block_tokens=16, limits=EngineLimits(step_tokens=step_tokens))
    params = [greedy(tokens, n=n, temperature=0.5) for _, tokens, n, _ in requests]
    for index, (length, _, _, seed) in enumerate(requests):
        bench.add(f"r{index}", prompt_of(length, seed), params[index])
        bench.step()
    bench.run()
    for index, (length, _, n, seed) in enumerate(requests):
        for choice in range(n):
            expected = expected_output(prompt_of(length, seed), params[index], choice)
            assert bench.output(f"r{index}", choice) == expected
    assert bench.cache.used == 0
    assert not any(isinstance(event, Computed) for event in bench.events)
