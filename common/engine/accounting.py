"""Which request a step was for: its share of the ledger."""

from collections.abc import Mapping

from common.domain.ids import AttemptKey
from common.engine.job import Job
from common.engine.step_plan import StepPlan


def book_step(plan: StepPlan, jobs: Mapping[AttemptKey, Job], elapsed_ms: float) -> None:
    """Book one step, before its rows count as computed, on every job that was in it: each waited
    for all of it. Tokens computed again after a preemption are no prompt work."""
    prefilled, decoded = set[Job](), set[Job]()
    for sequence, count in plan.rows:
        job, computed = jobs[sequence.key], sequence.computed
        if computed >= len(sequence.prompt) and computed >= sequence.recompute_until:
            decoded.add(job)
            continue
        again = max(0, min(sequence.recompute_until - computed, count))
        prompt = max(0, min(len(sequence.prompt) - computed, count) - again)
        job.ledger.recomputed_tokens += again
        job.ledger.prefill_computed_tokens += prompt
        prefilled.add(job)
    for job in prefilled:
        job.ledger.prefill_ms += elapsed_ms
        job.ledger.prefill_chunks += 1
    for job in decoded - prefilled:
        job.ledger.decode_ms += elapsed_ms
        job.ledger.decode_steps += 1
