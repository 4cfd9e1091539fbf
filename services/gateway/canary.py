"""One small real request through the whole path, before anybody is told that we are ready.

It runs whenever the cluster becomes usable and stands until the router, the last decode worker or
the model is lost. A failed one is tried again after RETRY_S.
"""

import asyncio
import random

import numpy as np
import structlog

from common.domain.errors import ServingError
from common.domain.sampling import SamplingParams
from services.gateway.attempts import Attempts
from services.gateway.cluster import ClusterState
from services.gateway.exchange import Exchange, Timing
from services.gateway.generation import Generation
from services.gateway.served_text import ServedText
from services.gateway.text_output import TextOptions

ENDPOINT = "canary"
PROMPT = "Hello"
TOKENS = 2
RETRY_S = 0.5
LIMIT_S = 10.0
log = structlog.get_logger()


class Canary:
    def __init__(
        self, attempts: Attempts, cluster: ClusterState, text: ServedText, rng: random.Random
    ) -> None:
        self._attempts = attempts
        self._cluster = cluster
        self._text = text
        self._rng = rng
        self._changed = asyncio.Event()
        self._digest = ""
        """Of the weights that the cluster serves; empty while it serves nothing."""
        self._proven = ""

    @property
    def proven(self) -> bool:
        return self._digest != "" and self._proven == self._digest

    def cluster_changed(self) -> None:
        """Call after anything that may make the cluster usable or unusable."""
        card = self._cluster.card if self._cluster.refusal() is None else None
        digest = "" if card is None else card.weights_digest
        if digest != self._digest:
            self._digest, self._proven = digest, ""
            self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._digest and not self.proven:
                self._changed.clear()
                await self._prove(self._digest)

    async def _prove(self, digest: str) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._generate()
        except (ServingError, TimeoutError) as error:
            log.warning("canary_failed", error=str(error) or "no answer in time")
            await asyncio.sleep(RETRY_S)
            return
        # The cluster may have been lost, and another found, in the meantime.
        if digest == self._digest and not self._changed.is_set():
            self._proven = digest
            log.info("canary_passed")

    async def _generate(self) -> None:
        name = f"canary-{self._rng.getrandbits(64):016x}"
        now = asyncio.get_running_loop().time()
        exchange = Exchange(name, name, ENDPOINT, Timing(now))
        prompt = await self._text.encode(PROMPT, add_special=True)
        sampling = SamplingParams(seed=0, max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
        try:
            self._attempts.submit(
                exchange,
                Generation(np.asarray(prompt, dtype=np.int32), b"", b"", sampling, TextOptions()),
            )
            while await exchange.take():
                pass
        finally:
            self._attempts.leave(exchange)
