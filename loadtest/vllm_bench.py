"""One load under the names that `vllm bench serve --save-result` gives, so that scripts which read
those work on ours, too.

Its definitions, not ours, where they differ: latencies of finished requests only, a rate over the
whole run, and nothing else. Times still run from the scheduled moment.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from loadtest.metrics import (
    LoadMeasures,
    Targets,
    chunk_gaps_ms,
    e2e_ms,
    per_second,
    told_sum,
    tpot_ms,
    ttft_ms,
)
from loadtest.record import Outcome, Record

VllmBench = dict[str, float | int | None]
"""By vLLM's names; None: nothing to compute it from."""
_OF_REQUEST: dict[str, Callable[[Record], float | None]] = {
    "ttft": ttft_ms,
    "tpot": tpot_ms,
    "e2el": e2e_ms,
}
_PERCENTILES = (50, 90, 95, 99)


def vllm_bench(records: Sequence[Record], measures: LoadMeasures, targets: Targets) -> VllmBench:
    """`measures` are those of `records`."""
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    output = told_sum(finished, lambda record: record.output_tokens)
    prompt = told_sum(finished, lambda record: record.prompt_tokens)
    total = None if output is None or prompt is None else output + prompt
    seconds = measures.duration_s
    found: VllmBench = {
        "num_prompts": len(records),
        "completed": len(finished),
        "failed": measures.misses,
        "duration": seconds,
        "total_input_tokens": prompt,
        "total_output_tokens": output,
        "request_throughput": len(finished) / seconds,
        "request_goodput": measures.goodput if targets.any else None,
        "output_throughput": per_second(output, seconds),
        "total_token_throughput": per_second(total, seconds),
        "max_output_tokens_per_s": _busiest_second(finished),
        "max_concurrent_requests": measures.most_running,
    }
    for name, of in _OF_REQUEST.items():
        values = [value for record in finished if (value := of(record)) is not None]
        found.update(_spread(name, values))
    gaps = [gap for record in finished for gap in chunk_gaps_ms(record)]
    found.update(_spread("itl", gaps))
    return found


def _spread(name: str, values: Sequence[float]) -> VllmBench:
    keys = [f"mean_{name}_ms", f"std_{name}_ms", f"median_{name}_ms"]
    keys += [f"p{percent}_{name}_ms" for percent in _PERCENTILES]
    if not values:
        return dict.fromkeys(keys)
    array = np.asarray(values, dtype=np.float64)
    ranks = np.percentile(array, _PERCENTILES).tolist()
    return dict(zip(keys, [float(array.mean()), float(array.std()), ranks[0], *ranks], strict=True))


def _busiest_second(records: Sequence[Record]) -> float | None:
    """Chunks in the fullest second since the first sending: it takes a chunk for a token."""
    times = [at for record in records for at in record.chunks_s]
    if not times:
        return None
    since = np.asarray(times) - min(record.sent_s for record in records)
    counts, _edges = np.histogram(since, bins=range(ceil(float(since.max())) + 2))
    return float(counts.max())
