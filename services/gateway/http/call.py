"""What a handler works with: the parts of the gateway, and the call it answers."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from aiohttp import web
from pydantic_core import from_json

from common.domain.card import ModelCard
from common.domain.errors import ErrorCode, InvalidRequest, ModelNotFound
from services.gateway.attempts import Attempts
from services.gateway.cluster import ClusterState
from services.gateway.exchange import AttemptLost
from services.gateway.http.errors import HttpProblem
from services.gateway.metrics import GatewayMetrics
from services.gateway.served_text import ServedText
from services.gateway.streams import Failure

JsonObject = dict[str, object]
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_ID_CHARACTERS = 64
log = structlog.get_logger()
_DRAINING = Failure(
    ErrorCode.NO_WORKER, "this gateway is shutting down", retryable=True, retry_after_ms=1000
)


@dataclass(slots=True)
class Desk:
    """The parts that HTTP handlers use; one for the whole process."""

    text: ServedText
    cluster: ClusterState
    attempts: Attempts
    metrics: GatewayMetrics
    proven: Callable[[], bool]
    """Whether a request has gone through the whole path since the cluster was last lost."""
    rng: random.Random
    write_limit_s: float = 30.0
    """A client that takes nothing for so long is cut."""
    started_at: int = 0
    """Unix time, for the `created` of models."""
    draining: bool = False
    calls: int = 0

    @property
    def ready(self) -> bool:
        return not self.draining and self.cluster.refusal() is None and self.proven()

    def refusal(self) -> Failure | None:
        return _DRAINING if self.draining else self.cluster.refusal()

    def card(self) -> ModelCard:
        """What is served now. Raises AttemptLost (503) if nothing is."""
        refusal = self.refusal()
        if refusal is not None:
            raise AttemptLost(refusal)
        card = self.cluster.card
        assert card is not None
        return card

    def card_for(self, model: str | None) -> ModelCard:
        """Raises ModelNotFound as well. No model named means the one there is."""
        card = self.card()
        if model and model != card.model:
            raise ModelNotFound(f"The model `{model}` does not exist; this is `{card.model}`.")
        return card

    def new_id(self) -> str:
        return f"{self.rng.getrandbits(96):024x}"

    def new_seed(self) -> int:
        return self.rng.getrandbits(63)


@dataclass(slots=True)
class Call:
    """One HTTP request on its way."""

    desk: Desk
    request: web.Request
    id: str
    client_id: str
    arrived: float
    endpoint: str = ""
    tail: str = ""
    generating: bool = False
    """Streams were started: what becomes of them is counted there."""
    started: bool = False
    """The status line is out."""

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Request-Id": self.client_id}

    def name(self, client_id: str | None) -> None:
        """The body's own id wins over the header's."""
        self.client_id = clean_id(client_id) or self.client_id

    def note_unknown(self, names: list[str]) -> None:
        if names:
            log.debug("fields_ignored", request_id=self.id, names=names)

    async def json(self) -> JsonObject:
        """The body. Raises HttpProblem or InvalidRequest."""
        kind = self.request.headers.get("Content-Type", "")
        if kind and not self.request.content_type.endswith("json"):
            raise HttpProblem(415, f"{self.request.content_type} is not application/json")
        body = await self.request.read()
        try:
            value = from_json(body)
        except ValueError as error:
            raise InvalidRequest(f"the body is not valid JSON: {error}") from None
        if not isinstance(value, dict):
            raise InvalidRequest("the body must be a JSON object")
        return value


def clean_id(raw: str | None) -> str:
    """Safe in logs, headers and paths; empty if nothing is left."""
    return _FOREIGN.sub("", raw or "")[:_ID_CHARACTERS]
