"""Records as a load test would bring them home, made from a seed: a queue before a few slots."""

import heapq
from dataclasses import dataclass
from random import Random

from loadtest.measurement import Mark, Measurement
from loadtest.metrics import Targets
from loadtest.record import Outcome, Record

TARGETS = Targets(ttft_ms=500, tpot_ms=50)


@dataclass(frozen=True)
class Server:
    """Prefill and decode share `slots`; `step_s` is what a token takes."""

    slots: int = 16
    step_s: float = 0.02
    prefill_s: float = 0.08
    fails: float = 0.0
    tokens: int = 60
    ledger: bool = False


def records(
    count: int, rate: float, seed: int, server: Server | None = None, load: str = "main"
) -> list[Record]:
    server = server or Server()
    random = Random(seed)
    free = [0.0] * server.slots
    at = 0.0
    found = []
    for number in range(count):
        at += random.expovariate(rate)
        record = Record(load, number, 0, at, sent_s=at + random.expovariate(2000))
        record.request_id = f"{load}-{number}-0"
        begin = max(record.sent_s, heapq.heappop(free))
        tokens = max(2, round(random.lognormvariate(0, 0.7) * server.tokens))
        if random.random() < server.fails:
            _fail(record, random)
            heapq.heappush(free, begin)
        else:
            _answer(record, begin, tokens, server, random)
            heapq.heappush(free, record.chunks_s[-1])
        found.append(record)
    return found


def _answer(record: Record, begin: float, tokens: int, server: Server, random: Random) -> None:
    prompt = round(random.lognormvariate(5, 0.8))
    prefill = server.prefill_s * (0.3 + prompt / 200)
    time = begin + prefill
    times = []
    for _ in range(tokens):
        times.append(time)
        time += server.step_s * random.choice((0.9, 1.0, 1.1, 1.3)) + (random.random() < 0.01) * 0.1
    record.chunks_s = times
    record.ended_s = times[-1] + 0.001
    record.outcome, record.status, record.finish = Outcome.FINISHED, 200, "length"
    record.prompt_tokens, record.output_tokens = prompt, tokens
    record.cached_tokens = prompt // 3
    record.asked_tokens = tokens
    record.asked_digest = f"{record.load} {record.session} {record.turn}"
    record.text_digest = f"{random.getrandbits(64):016x}"
    if server.ledger:
        record.server = {
            "queue_ms": (begin - record.sent_s) * 1e3,
            "prefill_ms": prefill * 1e3,
            "transfer_ms": 2.5,
            "preemptions": 0,
        }


def _fail(record: Record, random: Random) -> None:
    record.outcome, record.status, record.error = random.choice(
        (
            (Outcome.REJECTED, 503, "the queue is full"),
            (Outcome.FAILED, 0, "ServerDisconnectedError: Server disconnected"),
            (Outcome.CUT, 200, "the stream ended without a finish reason"),
        )
    )
    record.ended_s = record.sent_s + 0.05
    if record.outcome is Outcome.CUT:
        record.chunks_s = [record.sent_s + 0.03, record.sent_s + 0.04]


def measurement(
    side: str = "aggregated",
    *,
    count: int = 60,
    rate: float = 4.0,
    seed: int = 1,
    server: Server | None = None,
    searched: bool = False,
    marks: tuple[Mark, ...] = (),
) -> Measurement:
    return Measurement(
        side=side,
        seed=seed,
        targets=TARGETS,
        records=records(count, rate, seed, server),
        rate=rate if searched else None,
        server={"preemptions": 3.0},
        marks=marks,
    )
