"""The names of vLLM's benchmark, and its definitions where they differ from ours."""

import pytest

from loadtest.metrics import Targets, measure
from loadtest.record import Outcome, Record
from loadtest.vllm_bench import VllmBench, vllm_bench


def asked(chunks: list[float], tokens: int | None, outcome: Outcome = Outcome.FINISHED) -> Record:
    return Record(
        load="main",
        session=0,
        turn=0,
        scheduled_s=0.0,
        ended_s=chunks[-1] if chunks else 0.0,
        outcome=outcome,
        chunks_s=chunks,
        prompt_tokens=10,
        output_tokens=tokens,
    )


def named(*records: Record, targets: Targets | None = None) -> VllmBench:
    targets = targets or Targets()
    return vllm_bench(records, measure(records, targets), targets)


def test_latencies_are_of_finished_requests_only() -> None:
    found = named(asked([1.0, 2.0], 2), asked([3.0, 4.0], 2, Outcome.CUT))
    assert found["mean_ttft_ms"] == 1000
    assert (found["completed"], found["failed"], found["num_prompts"]) == (1, 1, 2)
    assert found["total_output_tokens"] == 2
    assert found["output_throughput"] == 2 / 4
    assert found["total_token_throughput"] == 12 / 4
    assert found["request_throughput"] == 1 / 4


def test_every_latency_has_mean_deviation_median_and_percentiles() -> None:
    found = named(asked([1.0, 2.0], 2), asked([3.0, 6.0], 2))
    assert found["median_ttft_ms"] == 2000
    assert found["std_ttft_ms"] == 1000
    assert found["p50_ttft_ms"] == 2000
    assert found["p99_ttft_ms"] == pytest.approx(2980)
    assert found["mean_tpot_ms"] == found["mean_itl_ms"] == 2000
    assert found["mean_e2el_ms"] == 4000


def test_goodput_is_there_with_targets_only() -> None:
    record = asked([1.0, 2.0], 2)
    assert named(record)["request_goodput"] is None
    assert named(record, targets=Targets(ttft_ms=1000))["request_goodput"] == 1 / 2


def test_what_cannot_be_computed_is_null_and_still_has_its_key() -> None:
    found = named(asked([], None, Outcome.REJECTED))
    assert found["p99_itl_ms"] is None
    assert found["mean_tpot_ms"] is None
    assert found["max_output_tokens_per_s"] is None


def test_the_busiest_second_counts_chunks_since_the_first_sending() -> None:
    found = named(asked([0.2, 0.4, 1.1, 1.2, 1.3, 2.5], 6))
    assert found["max_output_tokens_per_s"] == 3


def test_tokens_that_nobody_counted_are_null() -> None:
    found = named(asked([1.0, 2.0], None))
    assert found["total_output_tokens"] is None
    assert found["output_throughput"] is None
    assert found["total_token_throughput"] is None
    assert found["request_throughput"] == 1 / 2
