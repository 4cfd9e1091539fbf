"""The field's measures, from records. Every definition has one place, and it is here.

| measure | of | is |
|---|---|---|
| lag | request | sent - scheduled: the harness's own fault |
| TTFT | request | first content chunk - scheduled |
| E2E | request | last content chunk - scheduled |
| TPOT | request | (last - first) / (output tokens - 1); none below two. aiperf calls it ITL |
| ITL, chunks | gap | between two content chunks, pooled. vLLM's and SGLang's "ITL" |
| ITL, tokens | token | a gap shared evenly by the tokens it brought, pooled |

Times are from the *scheduled* moment, so a client that falls behind cannot hide it (no coordinated
omission). Tokens come from the server's usage, never from chunks. What was refused, failed or cut
is a miss; what the client left on purpose is neither. Milliseconds. Pure.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from math import inf

import numpy as np

from loadtest.record import Outcome, Record

ENOUGH_FOR_P90 = 200
ENOUGH_FOR_P99 = 1000

OfRequest = Callable[[Record], float | None]


def lag_ms(record: Record) -> float:
    return (record.sent_s - record.scheduled_s) * 1e3


def ttft_ms(record: Record) -> float | None:
    """None: no content came."""
    if not record.chunks_s:
        return None
    return (record.chunks_s[0] - record.scheduled_s) * 1e3


def e2e_ms(record: Record) -> float | None:
    """None: it did not finish. Ends with the last content, not with usage or the end mark."""
    if record.outcome is not Outcome.FINISHED or not record.chunks_s:
        return None
    return (record.chunks_s[-1] - record.scheduled_s) * 1e3


def tpot_ms(record: Record) -> float | None:
    """None: it did not finish, the server did not count, or there is no second token."""
    tokens = record.output_tokens
    if record.outcome is not Outcome.FINISHED or tokens is None or tokens < 2:
        return None
    if not record.chunks_s:
        return None
    return (record.chunks_s[-1] - record.chunks_s[0]) * 1e3 / (tokens - 1)


def chunk_gaps_ms(record: Record) -> list[float]:
    """One fewer than chunks, also of a stream that was cut."""
    times = record.chunks_s
    return [(after - before) * 1e3 for before, after in pairwise(times)]


def token_gaps_ms(record: Record) -> list[float] | None:
    """For every token but those of the first chunk its share of the gap before it. None: nobody
    knows how many tokens came with each chunk."""
    counts = tokens_of_chunks(record)
    if counts is None:
        return None
    shares: list[float] = []
    waited = 0.0
    for gap, count in zip(chunk_gaps_ms(record), counts[1:], strict=True):
        waited += gap
        if count:  # a chunk can bring text of a token that was counted before
            shares += [waited / count] * count
            waited = 0.0
    return shares


def tokens_of_chunks(record: Record) -> list[int] | None:
    """As the server counted them, or one each where their number is that of the tokens. A count
    of some chunks only says nothing."""
    if len(record.chunk_tokens) == len(record.chunks_s):
        return record.chunk_tokens
    if record.output_tokens == len(record.chunks_s):
        return [1] * len(record.chunks_s)
    return None


REQUEST_MEASURES: dict[str, OfRequest] = {
    "ttft_ms": ttft_ms,
    "tpot_ms": tpot_ms,
    "e2e_ms": e2e_ms,
    "lag_ms": lag_ms,
}
"""Each is distributed over requests."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Service level objectives of one request, milliseconds; 0: none."""

    ttft_ms: float = 0.0
    tpot_ms: float = 0.0
    e2e_ms: float = 0.0

    def __post_init__(self) -> None:
        if min(self.ttft_ms, self.tpot_ms, self.e2e_ms) < 0:
            raise ValueError("a target is not negative; 0 stands for none")

    @property
    def any(self) -> bool:
        return bool(self.ttft_ms or self.tpot_ms or self.e2e_ms)

    def met(self, record: Record) -> bool:
        """A request that did not finish, or finished without content, meets nothing. One without
        a second token has no TPOT to miss."""
        if record.outcome is not Outcome.FINISHED:
            return False
        ttft, tpot, e2e = ttft_ms(record), tpot_ms(record), e2e_ms(record)
        if ttft is None or e2e is None:
            return False
        return (
            (not self.ttft_ms or ttft <= self.ttft_ms)
            and (not self.tpot_ms or tpot is None or tpot <= self.tpot_ms)
            and (not self.e2e_ms or e2e <= self.e2e_ms)
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """`count` is what the percentiles rest on: requests, or gaps of so many `requests`."""

    count: int
    requests: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float

    @property
    def p90_is_firm(self) -> bool:
        return self.requests >= ENOUGH_FOR_P90

    @property
    def p99_is_firm(self) -> bool:
        return self.requests >= ENOUGH_FOR_P99


def distribution(values: Sequence[float], requests: int | None = None) -> Distribution | None:
    """Percentiles by linear interpolation; None of nothing."""
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    p50, p90, p99 = np.percentile(array, (50, 90, 99))
    return Distribution(
        count=len(values),
        requests=len(values) if requests is None else requests,
        mean=float(array.mean()),
        p50=float(p50),
        p90=float(p90),
        p99=float(p99),
        max=float(array.max()),
    )


@dataclass(frozen=True, slots=True)
class LoadMeasures:
    """All of one load, or of all loads together."""

    issued: int
    outcomes: dict[str, int]
    duration_s: float
    """First scheduled to last end."""
    request_rate: float
    """Finished requests a second."""
    output_tokens: int | None
    """None, here and of what is made from it: content came that the server did not count."""
    output_tokens_s: float | None
    steady_tokens_s: float | None
    """While all that was to come kept coming: from the first answer's end to the last sending.
    None: that leaves no time."""
    total_tokens_s: float | None
    """Prompt and output."""
    prompt_tokens: int | None
    cached_tokens: int | None
    """None: the server does not say."""
    attainment: float | None
    """Share of requests that met all targets, of all but those that left; None without targets."""
    goodput: float | None
    """Requests that met all targets a second. As aiperf and vLLM define it: at this rate."""
    most_running: int
    """Requests sent and not ended, at most."""
    acceptance_length: float | None
    """Tokens a verify step emitted, bonus included, mean over requests; None: not told."""
    distributions: dict[str, Distribution]
    """By measure: those above, itl_chunk_ms and itl_token_ms. One without a value is missing."""

    @property
    def misses(self) -> int:
        kinds = (Outcome.REJECTED, Outcome.FAILED, Outcome.CUT)
        return sum(self.outcomes.get(kind, 0) for kind in kinds)

    @property
    def cached_share(self) -> float | None:
        if self.cached_tokens is None or not self.prompt_tokens:
            return None
        return self.cached_tokens / self.prompt_tokens


def measure(records: Sequence[Record], targets: Targets) -> LoadMeasures:
    """Raises ValueError without a record."""
    if not records:
        raise ValueError("nothing was sent, so there is nothing to measure")
    finished = [record for record in records if record.outcome is Outcome.FINISHED]
    began = min(record.scheduled_s for record in records)
    duration_s = max(max(record.ended_s for record in records) - began, 1e-9)
    output = told_sum(records, lambda record: record.output_tokens)
    prompt = told_sum(records, lambda record: record.prompt_tokens)
    total = None if output is None or prompt is None else output + prompt
    cached = [record.cached_tokens for record in records if record.cached_tokens is not None]
    met = sum(targets.met(record) for record in records)
    judged = sum(record.outcome is not Outcome.LEFT for record in records)
    return LoadMeasures(
        issued=len(records),
        outcomes=_outcomes(records),
        duration_s=duration_s,
        request_rate=len(finished) / duration_s,
        output_tokens=output,
        output_tokens_s=per_second(output, duration_s),
        steady_tokens_s=None if output is None else steady_tokens_s(records),
        total_tokens_s=per_second(total, duration_s),
        prompt_tokens=prompt,
        cached_tokens=sum(cached) if cached else None,
        attainment=met / judged if targets.any and judged else None,
        goodput=met / duration_s if targets.any else None,
        most_running=most_running(records),
        acceptance_length=acceptance_length(records),
        distributions=_distributions(records),
    )


def told_sum(records: Iterable[Record], of: Callable[[Record], int | None]) -> int | None:
    """Of what servers count. None where content came and none was counted; 0 where none came."""
    came = False
    told: list[int] = []
    for record in records:
        came = came or bool(record.chunks_s)
        count = of(record)
        if count is not None:
            told.append(count)
    return sum(told) if told or not came else None


def per_second(count: int | None, seconds: float) -> float | None:
    return None if count is None else count / seconds


def _outcomes(records: Iterable[Record]) -> dict[str, int]:
    counts = dict.fromkeys((outcome.value for outcome in Outcome), 0)
    for record in records:
        counts[record.outcome.value] += 1
    return counts


def _distributions(records: Sequence[Record]) -> dict[str, Distribution]:
    found: dict[str, Distribution | None] = {}
    for name, of in REQUEST_MEASURES.items():
        values = [value for record in records if (value := of(record)) is not None]
        found[name] = distribution(values)
    chunked = [gaps for record in records if (gaps := chunk_gaps_ms(record))]
    found["itl_chunk_ms"] = distribution(list(chain.from_iterable(chunked)), len(chunked))
    by_token = [shares for record in records if (shares := token_gaps_ms(record))]
    found["itl_token_ms"] = distribution(list(chain.from_iterable(by_token)), len(by_token))
    return {name: one for name, one in found.items() if one is not None}


def steady_tokens_s(records: Sequence[Record]) -> float | None:
    """Between the end of the first answer and the last sending a saturated server has always
    something to do; before and after it fills up and runs empty. A refusal is no answer. None where
    that leaves no time. A request's tokens are spread over its chunks where nobody knows better."""
    start = min((record.ended_s for record in records if record.chunks_s), default=inf)
    stop = max(record.sent_s for record in records)
    if stop <= start:
        return None
    return sum(_tokens_between(record, start, stop) for record in records) / (stop - start)


def _tokens_between(record: Record, start: float, stop: float) -> float:
    times = record.chunks_s
    first, end = bisect_left(times, start), bisect_left(times, stop)
    if first == end:
        return 0.0
    counts = tokens_of_chunks(record)
    if counts is None:
        return (record.output_tokens or 0) * (end - first) / len(times)
    return float(sum(counts[first:end]))


def most_running(records: Iterable[Record]) -> int:
    """An end and a sending at the same moment do not overlap."""
    changes = sorted(
        change for record in records for change in ((record.sent_s, 1), (record.ended_s, -1))
    )
    running = most = 0
    for _at, change in changes:
        running += change
        most = max(most, running)
    return most


def acceptance_length(records: Iterable[Record]) -> float | None:
    """The mean over requests of what the server says of each (SPEED-Bench's macro average)."""
    told = [value for record in records if (value := _told_acceptance(record)) is not None]
    return sum(told) / len(told) if told else None


def _told_acceptance(record: Record) -> float | None:
    match record.server:
        case {"speculative_decoding": {"mean_acceptance_length": int() | float() as value}}:
            return float(value)
        case _:
            return None
