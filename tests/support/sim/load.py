"""What clients ask, drawn from a seed, and what became of it.

Prompts share prefixes (a few system prompts, conversations that go on), so every cache is hit. A
client asks the way an HTTP handler does and knows what it must get.
"""

import asyncio
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

import numpy as np

from common.domain.finish import FinishReason
from common.domain.sampling import SamplingParams
from common.engine.mock import expected_output
from common.kv.hashing import chain_root, extend_chain
from common.wire.columns import pack_hashes
from services.gateway.app import GatewayApp
from services.gateway.exchange import AttemptLost, Exchange, Timing
from services.gateway.generation import Generation
from services.gateway.streams import Failure
from services.gateway.text_output import Delta, TextOptions

LONGEST_PROMPT = 400
LONGEST_OUTPUT = 40


@dataclass(frozen=True)
class Request:
    name: str
    at: float
    prompt: tuple[int, ...]
    sampling: SamplingParams
    stop: str = ""
    patience_s: float | None = None
    """The client leaves after this."""
    cached: bool = True

    def expected(self, choice: int) -> str:
        """All text it can ever get, cut at the stop string."""
        text = bytes(expected_output(self.prompt, self.sampling, choice)).decode()
        return text.split(self.stop)[0] if self.stop else text

    def finish(self, choice: int) -> FinishReason:
        text = bytes(expected_output(self.prompt, self.sampling, choice)).decode()
        stopped = self.stop and self.stop in text
        return FinishReason.STOP if stopped else FinishReason.LENGTH


class End(Enum):
    FINISHED = "finished"
    FAILED = "failed"
    LEFT = "left"
    UNREACHED = "unreached"
    """There was no gateway."""
    CUT = "cut"
    """The gateway died."""
    OPEN = "open"


@dataclass
class Outcome:
    request: Request
    texts: list[str] = field(default_factory=list)
    finishes: list[FinishReason | None] = field(default_factory=list)
    end: End = End.OPEN
    ends: int = 0
    failure: Failure | None = None
    ended_at: float = 0.0
    exchange: Exchange | None = None

    def close(self, end: End, now: float, failure: Failure | None = None) -> None:
        self.end, self.ended_at, self.failure = end, now, failure
        self.ends += 1

    def take(self, deltas: dict[int, Delta]) -> None:
        for index, delta in deltas.items():
            self.texts[index] += "".join(delta.text)
            if delta.finish is not None:
                assert self.finishes[index] is None, "a choice ended twice"
                self.finishes[index] = delta.finish.reason


def requests(seed: str, seconds: float) -> list[Request]:
    """Rushes of a few requests a second or less, with pauses between them."""
    rng = Random(f"{seed}/load")
    known = [_ids(rng, rng.randint(8, 200)) for _ in range(4)]
    found: list[Request] = []
    now = 1.0
    while (now := now + rng.expovariate(0.25)) < seconds:
        for _ in range(rng.randint(1, 12)):
            request = _request(rng, f"r{len(found)}", now + rng.random(), known)
            found.append(request)
            place = rng.randrange(len(known))
            if len(request.prompt) > LONGEST_PROMPT:
                known[place] = _ids(rng, rng.randint(8, 200))
            elif rng.random() < 0.4:
                known[place] = _continued(request)
    return sorted(found, key=lambda request: request.at)


def _request(rng: Random, name: str, at: float, known: list[tuple[int, ...]]) -> Request:
    base = rng.choice(known) if rng.random() < 0.8 else ()
    prompt = base + _ids(rng, rng.randint(1, 60))
    sampling = SamplingParams(
        seed=rng.getrandbits(63),
        max_tokens=1 if rng.random() < 0.1 else rng.randint(2, LONGEST_OUTPUT),
        n=rng.choice((1, 1, 1, 1, 2, 3)),
        temperature=rng.choice((0.0, 1.0)),
        ignore_eos=True,
    )
    request = Request(name, at, prompt, sampling)
    if rng.random() < 0.15:
        return replace(request, patience_s=rng.uniform(0.0, 1.5))
    if rng.random() < 0.15:
        return replace(request, stop=chr(rng.randint(32, 126)))
    return replace(request, cached=rng.random() > 0.05)


def _continued(request: Request) -> tuple[int, ...]:
    output = expected_output(request.prompt, request.sampling, 0)
    return request.prompt + tuple(output)


def _ids(rng: Random, count: int) -> tuple[int, ...]:
    return tuple(rng.randrange(256) for _ in range(count))


async def ask(gateway: GatewayApp, outcome: Outcome) -> None:
    """One client, in the gateway's process. Fills in the outcome."""
    request = outcome.request
    clock = asyncio.get_running_loop().time
    exchange = Exchange(request.name, request.name, "sim", Timing(clock()))
    try:
        async with asyncio.timeout(request.patience_s):
            await _exchange(gateway, exchange, outcome)
        outcome.close(End.FINISHED, clock())
    except AttemptLost as error:
        outcome.close(End.FAILED, clock(), error.failure)
    except TimeoutError:
        outcome.close(End.LEFT, clock())
    except asyncio.CancelledError:
        outcome.close(End.CUT, clock())
        raise
    finally:
        gateway.attempts.leave(exchange)


async def _exchange(gateway: GatewayApp, exchange: Exchange, outcome: Outcome) -> None:
    request = outcome.request
    card = gateway.desk.card()
    root = chain_root(card.weights_digest) if request.cached else b""
    prompt = np.asarray(request.prompt, dtype=np.int32)
    units = pack_hashes(extend_chain(root, prompt)) if root else b""
    stops = (request.stop,) if request.stop else ()
    choices = request.sampling.n
    outcome.texts, outcome.finishes = [""] * choices, [None] * choices
    outcome.exchange = exchange
    gateway.attempts.submit(
        exchange, Generation(prompt, root, units, request.sampling, TextOptions(stops=stops))
    )
    pending = await exchange.first()
    while pending:
        outcome.take(pending)
        pending = await exchange.take()
    await exchange.ledger()
