"""Which request a step was for."""

from common.engine.accounting import book_step
from common.engine.job import Add, Job
from common.engine.sequence import Sequence
from common.engine.step_plan import StepPlan
from tests.support.engines import ROOT
from tests.support.sequences import cache_of, decoding, running


def job(sequence: Sequence) -> Job:
    return Job(Add(sequence.key, sequence.prompt, sequence.units, ROOT, sequence.params))


def test_a_step_is_booked_on_all_who_waited_for_it() -> None:
    cache = cache_of(20)
    decode, chunk = decoding(cache, "d", 5), running(cache, "p", 60, arrival=1, computed=16)
    jobs = {sequence.key: job(sequence) for sequence in (decode, chunk)}
    book_step(StepPlan(rows=[(decode, 1), (chunk, 20)]), jobs, 2.5)
    first, second = (jobs[sequence.key].ledger for sequence in (decode, chunk))
    assert (first.decode_ms, first.decode_steps, first.prefill_ms) == (2.5, 1, 0.0)
    assert (second.prefill_ms, second.prefill_chunks, second.decode_steps) == (2.5, 1, 0)
    assert (first.prefill_computed_tokens, second.prefill_computed_tokens) == (0, 20)


def test_n_choices_in_one_step_waited_for_it_once() -> None:
    cache = cache_of(20)
    twins = [decoding(cache, "a", 5) for _ in range(3)]
    jobs = {twins[0].key: job(twins[0])}
    book_step(StepPlan(rows=[(twin, 1) for twin in twins]), jobs, 4.0)
    ledger = jobs[twins[0].key].ledger
    assert (ledger.decode_ms, ledger.decode_steps) == (4.0, 1)


def test_tokens_computed_again_are_no_prompt_work() -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 50, computed=16, output=4)
    sequence.recompute_until = 53
    jobs = {sequence.key: job(sequence)}
    book_step(StepPlan(rows=[(sequence, 30)]), jobs, 1.0)
    sequence.computed = 46
    book_step(StepPlan(rows=[(sequence, 8)]), jobs, 1.0)
    ledger = jobs[sequence.key].ledger
    assert ledger.recomputed_tokens == 30 + 7
    assert ledger.prefill_computed_tokens == 0
    assert (ledger.prefill_chunks, ledger.decode_steps) == (2, 0)


def test_a_prompt_preempted_half_way_is_half_prompt_work_on_its_return() -> None:
    cache = cache_of(20)
    sequence = running(cache, "a", 50)
    sequence.recompute_until = 20
    jobs = {sequence.key: job(sequence)}
    book_step(StepPlan(rows=[(sequence, 50)]), jobs, 1.0)
    ledger = jobs[sequence.key].ledger
    assert (ledger.recomputed_tokens, ledger.prefill_computed_tokens) == (20, 30)
    assert ledger.prefill_chunks == 1


def test_a_step_of_a_job_that_both_prefills_and_decodes_is_booked_as_prefill() -> None:
    cache = cache_of(20)
    leader, twin = decoding(cache, "a", 20), running(cache, "a", 20, output=1)
    twin.recompute_until = 20
    jobs = {leader.key: job(leader)}
    book_step(StepPlan(rows=[(leader, 1), (twin, 21)]), jobs, 3.0)
    ledger = jobs[leader.key].ledger
    assert (ledger.prefill_ms, ledger.decode_ms, ledger.recomputed_tokens) == (3.0, 0.0, 20)
