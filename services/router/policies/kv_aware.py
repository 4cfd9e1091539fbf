"""Where the prefix lies, unless that worker is busier than the prefix is worth.

After the cost of the Dynamo KV router (its router design document: prompt work left after overlap
credit, plus blocks active in decode; lowest cost wins; a host hit counts 0.75), with everything in
tokens:

    cached  = 16 * (device_units + 0.75 * max(0, host_units - device_units))
    prefill = work + prompt - cached
    decode  = work + prompt - cached + block_tokens * context_blocks
    work    = max(pending_tokens, repeated_tokens)

`repeated_tokens` is ours. With pending work alone, a stream of short requests behind one shared
prompt would stay on one worker for ever, because each is done before the next comes. Work of the
last seconds that came behind a cached prefix stands for the work about to come: a hot prefix is
then copied to the next worker exactly when the imbalance has grown past what the copy costs, and a
lukewarm one stays where it is. A prompt that was new says nothing of that kind: counted as well,
the first of a prefix would send the second away.
"""

from collections.abc import Sequence

from common.kv.hashing import UNIT_TOKENS
from services.router.placement import Candidate, Draw, Need, Stage
from services.router.policies.least_loaded import burden

HOST_CREDIT = 0.75


def cost(stage: Stage, need: Need, candidate: Candidate) -> float:
    device, host = candidate.device_units, candidate.host_units
    cached = UNIT_TOKENS * (device + HOST_CREDIT * max(0, host - device))
    load = candidate.load
    work = max(load.pending_tokens, load.repeated_tokens)
    tokens = work + need.prompt_tokens - cached
    if stage is Stage.DECODE:
        tokens += need.block_tokens * load.context_blocks
    return tokens


class KvAware:
    def __init__(self, draw: Draw) -> None:
        """Draws nothing: equal costs go to the least loaded."""

    def choose(self, stage: Stage, need: Need, candidates: Sequence[Candidate]) -> Candidate:
        return min(candidates, key=lambda c: (cost(stage, need, c), burden(c.load)))
