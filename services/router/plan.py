"""From a request and the cluster to a placement: the rules that hold under every policy.

Decode writes the stream; a prefill worker, where there is one, computes the prompt. Three
exceptions. A request for a single token is written by the prefill worker alone. A decode worker
whose own cache leaves only a little of the prompt, and more of it than any prefill worker's,
computes it itself, since handing over would cost more. And with no prefill worker that could hold
the prompt, decode does everything. What no pool can ever hold is refused at once instead of
waiting at the head of the queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from common.domain.errors import ErrorCode
from common.kv.hashing import UNIT_TOKENS
from services.router.placement import (
    Candidate,
    Cluster,
    Need,
    Outcome,
    Placement,
    Policy,
    Refusal,
    Stage,
    Wait,
)

RETRY_AFTER_MS = 1_000


@dataclass(frozen=True, slots=True)
class PlanRules:
    max_sequences: int = 64
    """Sequences on one worker at a time."""
    local_prefill_tokens: int = 256
    """Up to this many uncached tokens a decode worker computes itself."""


DEFAULT_RULES = PlanRules()


def refuse(need: Need, cluster: Cluster) -> Refusal | None:
    """Why this cluster, however idle, cannot serve it."""
    if not need.prompt_tokens:
        return Refusal(ErrorCode.INVALID_REQUEST, "the prompt has no tokens")
    if not cluster.decode:
        return Refusal(
            ErrorCode.NO_WORKER, "no decode worker", retryable=True, retry_after_ms=RETRY_AFTER_MS
        )
    if any(_fits(c, need.blocks) for c in cluster.decode):
        return None
    if need.one_token and any(_fits(c, need.blocks) for c in cluster.prefill):
        return None
    largest = max(c.load.blocks_total for c in cluster.decode)
    return Refusal(
        ErrorCode.CAPACITY,
        f"the request needs {need.blocks} KV blocks of {need.block_tokens} tokens, "
        f"the largest worker has {largest}",
    )


def plan(need: Need, cluster: Cluster, policy: Policy, rules: PlanRules) -> Outcome:
    refusal = refuse(need, cluster)
    if refusal is not None:
        return refusal
    alone = [c for c in cluster.prefill if _fits(c, need.blocks)] if need.one_token else []
    if alone:
        able = [c for c in alone if _has_room(c, need, need.blocks, rules)]
        if not able:
            return Wait()
        return _placement(need, policy.choose(Stage.PREFILL, need, able), None)
    writers = [c for c in cluster.decode if _has_room(c, need, need.blocks, rules)]
    if not writers:
        return Wait()
    writer = policy.choose(Stage.DECODE, need, writers)
    prefills = [c for c in cluster.prefill if _fits(c, need.prompt_blocks)]
    if not prefills or _computes_itself(writer, prefills, need, rules):
        return _placement(need, writer, None)
    able = [c for c in prefills if _has_room(c, need, need.prompt_blocks, rules)]
    if not able:
        return Wait()
    return _placement(need, writer, policy.choose(Stage.PREFILL, need, able))


def _fits(candidate: Candidate, blocks: int) -> bool:
    """Could its whole pool hold them? One that has not told its size might."""
    total = candidate.load.blocks_total
    return total == 0 or blocks <= total


def _has_room(candidate: Candidate, need: Need, blocks: int, rules: PlanRules) -> bool:
    load = candidate.load
    if not candidate.available or not _fits(candidate, blocks):
        return False
    if load.sequences and load.sequences + need.choices > rules.max_sequences:
        return False
    new_blocks = _new_blocks(candidate, need, blocks)
    return load.blocks_total == 0 or load.blocks_used + new_blocks <= load.blocks_total


def _new_blocks(candidate: Candidate, need: Need, blocks: int) -> int:
    """Blocks of its own cache are shared, whether or not somebody uses them now."""
    shared = candidate.device_units * UNIT_TOKENS // need.block_tokens
    return max(need.choices, blocks - shared)


def _computes_itself(
    writer: Candidate, prefills: Iterable[Candidate], need: Need, rules: PlanRules
) -> bool:
    closest = max(c.device_units for c in prefills)
    left = need.prompt_tokens - writer.device_units * UNIT_TOKENS
    return writer.device_units > closest and left <= rules.local_prefill_tokens


def _placement(need: Need, writer: Candidate, prefill: Candidate | None) -> Placement:
    computes = prefill or writer
    return Placement(
        writer=writer.process,
        prefill=prefill.process if prefill else None,
        choices=need.choices,
        prompt_tokens=need.prompt_tokens,
        # The last token is always computed: its logits draw the first token.
        uncached_tokens=max(1, need.prompt_tokens - computes.cached_tokens),
        writer_new_tokens=max(1, need.prompt_tokens - writer.device_units * UNIT_TOKENS),
        context_blocks=need.blocks,
        new_blocks=_new_blocks(writer, need, need.blocks),
        prefill_blocks=need.prompt_blocks if prefill else 0,
    )
