"""A gateway with HTTP on a free port, and around it a router and a worker that a test plays.

Everything else is the real thing: validation, streams, text, framing. The mock tokenizer makes one
id of each byte, so a test can read the ids it plays.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import numpy as np

from common.domain.card import ModelCard
from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from common.domain.sampling import SamplingParams
from common.runtime.metrics import new_registry
from common.wire.columns import pack_i32, unpack_i32
from common.wire.memory_port import MemoryNetwork
from common.wire.messages import Message
from common.wire.messages.cluster import ClusterView, Hello, Pulse, Welcome
from common.wire.messages.submit import Failed, Placed, Submit
from common.wire.messages.tokens import Finished, TokenBatch, TokenLogprobs
from common.wire.port import Link
from services.gateway.app import GatewayApp
from services.gateway.exchange import Exchange, Timing
from services.gateway.generation import Generation
from services.gateway.http.server import HttpServer
from services.gateway.mock_text import MOCK_DIGEST, MOCK_EOS, MOCK_VOCAB, mock_text
from services.gateway.text_output import TextOptions

CARD = ModelCard(
    model="mock",
    weights_digest="w" * 64,
    tokenizer_digest=MOCK_DIGEST,
    arithmetic="fp32",
    block_tokens=32,
    context_tokens=256,
    vocab=MOCK_VOCAB,
    eos_token_ids=(MOCK_EOS,),
)
GATEWAY = ProcessId(ProcessName("gateway-0"), Incarnation(11))


@dataclass
class Peer:
    """One fake process: keeps what it hears, answers by `react`."""

    network: MemoryNetwork
    name: str
    role: Role
    incarnation: int = 1
    heard: list[Message] = field(default_factory=list)
    react: Callable[[Link, Message], None] = lambda link, message: None
    downs: int = 0

    def __post_init__(self) -> None:
        me = ProcessId(ProcessName(self.name), Incarnation(self.incarnation))
        self.port = self.network.port(me, f"mem://{self.name}")
        self.port.start(self)

    @property
    def ref(self) -> PeerRef:
        me = self.port.me
        return PeerRef(me.name, me.incarnation, self.role, self.port.address)

    def on_message(self, link: Link, message: Message) -> None:
        self.heard.append(message)
        self.react(link, message)

    def on_up(self, link: Link) -> None:
        pass

    def on_down(self, link: Link) -> None:
        self.downs += 1

    def kept(self, kind: type) -> list[Message]:
        return [message for message in self.heard if type(message) is kind]


def row(
    key: AttemptKey,
    tokens: Sequence[int],
    *,
    start: int = 0,
    choice: int = 0,
    finish: FinishReason | None = None,
    logprobs: Sequence[TokenLogprobs] = (),
) -> TokenBatch:
    """A batch of one row."""
    return TokenBatch(
        requests=(key.request,),
        attempts=pack_i32([key.attempt]),
        choices=pack_i32([choice]),
        starts=pack_i32([start]),
        counts=pack_i32([len(tokens)]),
        tokens=pack_i32(tokens),
        finishes=bytes([0 if finish is None else finish]),
        logprobs=tuple(logprobs),
        with_logprobs=bytes([bool(logprobs)]),
    )


class FakeCluster:
    """Router and one decode worker. Canaries are answered; of everything else the test decides."""

    def __init__(self, card: ModelCard | None = CARD) -> None:
        self.network = MemoryNetwork()
        self.view = ClusterView(card, prefill=1, decode=1)
        self.submits: asyncio.Queue[Submit] = asyncio.Queue()
        self.script: Callable[[Submit], None] | None = None
        self.answer_canary = True
        self.router_speaks = True
        self.worker_speaks = True
        self.router = self.new_router()
        self.worker = Peer(self.network, "decode-0", Role.DECODE)
        self.gateway = PeerRef(GATEWAY.name, GATEWAY.incarnation, Role.GATEWAY, "mem://gateway-0")
        self._router_links: list[Link] = []
        self._to_gateway: Link | None = None

    def new_router(self, incarnation: int = 1) -> Peer:
        router = Peer(self.network, "router", Role.ROUTER, incarnation)
        router.react = self._route
        return router

    def _route(self, link: Link, message: Message) -> None:
        match message:
            case Hello():
                self._router_links = [link]
                link.send(Welcome(True))
                link.send(self.view)
            case Submit() if message.key.request.startswith("canary"):
                if self.answer_canary:
                    self.play(message, [list(b"ok")], FinishReason.LENGTH)
            case Submit():
                self.submits.put_nowait(message)
                if self.script is not None:
                    self.script(message)
            case _:
                pass

    def show(self, view: ClusterView) -> None:
        self.view = view
        self.from_router(view)

    def from_router(self, message: Message) -> None:
        for link in self._router_links:
            link.send(message)

    def place(self, submit: Submit) -> None:
        self.from_router(Placed(submit.key, self.worker.ref, "prefill-0"))

    def from_worker(self, message: Message) -> None:
        if self._to_gateway is None:
            self._to_gateway = self.worker.port.connect(self.gateway.address, GATEWAY)
        self._to_gateway.send(message)

    def kill_worker(self) -> None:
        self.worker_speaks = False
        self.worker.port.close()
        self._to_gateway = None

    def kill_router(self) -> None:
        self.router.port.close()
        self._router_links = []

    def fail(self, submit: Submit, code: ErrorCode, *, retryable: bool = False) -> None:
        self.from_router(Failed(submit.key, code, "no", retryable, 2500 if retryable else 0))

    def play(self, submit: Submit, choices: Sequence[Sequence[int]], finish: FinishReason) -> None:
        """The whole life of an attempt: tokens one by one, choices in turn."""
        self.place(submit)
        for choice, tokens in enumerate(choices):
            for start, token in enumerate(tokens):
                last = start == len(tokens) - 1
                self.from_worker(
                    row(
                        submit.key,
                        [token],
                        start=start,
                        choice=choice,
                        finish=finish if last else None,
                        logprobs=[logprobs_of(token)]
                        if submit.sampling.logprobs is not None
                        else [],
                    )
                )
        self.finish(submit)

    def finish(self, submit: Submit, cached: int = 16) -> None:
        self.from_worker(Finished(submit.key, Ledger(cached_device_tokens=cached)))

    async def keep_alive(self) -> None:
        """What a living cluster says unasked."""
        steps = 0
        while True:
            await asyncio.sleep(0.2)
            steps += 1
            if self.router_speaks:
                self.from_router(self.view)
            if self.worker_speaks:
                self.from_worker(Pulse(self.worker.ref, steps))


def logprobs_of(token: int) -> TokenLogprobs:
    """Chosen -0.5; two rivals: the token itself and its successor."""
    return TokenLogprobs(-0.5, pack_i32([token, (token + 1) % 256]), (-0.5, -1.5))


def prompt_of(submit: Submit) -> list[int]:
    ids: list[int] = unpack_i32(submit.prompt).tolist()
    return ids


def make_app(cluster: FakeCluster) -> GatewayApp:
    port = cluster.network.port(GATEWAY, cluster.gateway.address)
    return GatewayApp(port, "mem://router", mock_text(), random.Random(7), new_registry())


@dataclass
class Gateway:
    app: GatewayApp
    cluster: FakeCluster
    http: aiohttp.ClientSession
    url: str

    async def post(self, path: str, body: object) -> tuple[int, dict[str, Any], Mapping[str, str]]:
        async with self.http.post(self.url + path, json=body) as response:
            return response.status, await response.json(), response.headers

    async def stream(self, path: str, body: dict[str, object]) -> str:
        """The whole body of a streamed answer."""
        async with self.http.post(self.url + path, json=body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            return await response.text()

    def counter(self, name: str, **labels: str) -> float:
        registry = self.app.desk.metrics.registry
        return registry.get_sample_value(f"twinfleet_gateway_{name}", labels) or 0.0


@asynccontextmanager
async def running_gateway(card: ModelCard | None = CARD) -> AsyncIterator[Gateway]:
    cluster = FakeCluster(card)
    app = make_app(cluster)
    app.start()
    server = HttpServer(app.desk, "127.0.0.1", 0)
    await server.start()
    alive = asyncio.create_task(cluster.keep_alive())
    async with aiohttp.ClientSession() as http:
        gateway = Gateway(app, cluster, http, f"http://127.0.0.1:{server.port}")
        if card is not None:
            await until(lambda: app.desk.ready)
        try:
            yield gateway
        finally:
            alive.cancel()
            await server.stop()
            await app.stop()


async def until(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.002)


def with_context(tokens: int) -> ModelCard:
    return replace(CARD, context_tokens=tokens)


@asynccontextmanager
async def running_app(cluster: FakeCluster) -> AsyncIterator[GatewayApp]:
    """Without HTTP, so that it runs on a clock that jumps."""
    app = make_app(cluster)
    app.start()
    alive = asyncio.create_task(cluster.keep_alive())
    await until(lambda: app.desk.ready)
    try:
        yield app
    finally:
        alive.cancel()
        await app.stop()


def submit(app: GatewayApp, max_tokens: int = 8, n: int = 1, *stops: str) -> Exchange:
    """One stream for the prompt "hi", straight into the app."""
    exchange = Exchange(app.desk.new_id(), "client", "chat", Timing(_now()))
    sampling = SamplingParams(seed=0, max_tokens=max_tokens, n=n)
    prompt = np.frombuffer(b"hi", np.uint8).astype(np.int32)
    app.attempts.submit(exchange, Generation(prompt, b"", b"", sampling, TextOptions(stops=stops)))
    return exchange


def _now() -> float:
    return asyncio.get_running_loop().time()
