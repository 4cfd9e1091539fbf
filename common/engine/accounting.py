"""Which request a step was for: its share of the ledger."""

from collections.abc import Mapping

from common.domain.ids import AttemptKey
from common.engine.job import Job
from common.engine.scheduler import StepPlan


def book_step(plan: StepPlan, jobs: Mapping[AttemptKey, Job], elapsed_ms: float) -> None:
    """Book one step, before its rows count as computed, on every job that was in it: each waited
    for all of it. Tokens computed again after a preemption are no prompt work."""
    prefilled: set[AttemptKey] = set()
    decoded: set[AttemptKey] = set()
    for sequence, count in plan.rows:
        ledger = jobs[sequence.key].ledger
        again = max(0, min(sequence.recompute_until - sequence.computed, count))
        prompt = max(0, min(len(sequence.prompt) - sequence.computed, count) - again)
        ledger.recomputed_tokens += again
        ledger.prefill_computed_tokens += prompt
        (prefilled if prompt or again else decoded).add(sequence.key)
    for key in prefilled:
        jobs[key].ledger.prefill_ms += elapsed_ms
        jobs[key].ledger.prefill_chunks += 1
    for key in decoded - prefilled:
        jobs[key].ledger.decode_ms += elapsed_ms
        jobs[key].ledger.decode_steps += 1
