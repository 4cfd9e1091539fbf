"""What the gateway knows of the cluster: a copy of what the router last said, and how old it is.

The router owns these facts. The copy counts only while the router is connected and speaks: a view
is forgotten when the connection breaks or when nothing came for VIEW_SILENCE_S. A card made for
another tokenizer is never served, because its ids would mean other text.
"""

from common.domain.card import ModelCard
from common.domain.errors import ErrorCode
from common.wire.messages.cluster import ClusterView
from services.gateway.streams import Failure

VIEW_SILENCE_S = 3.0
RETRY_AFTER_MS = 1000


class ClusterState:
    """Pure: time is an argument."""

    def __init__(self, tokenizer_digest: str) -> None:
        self._tokenizer_digest = tokenizer_digest
        self._router_up = False
        self._heard_at = 0.0
        self.view: ClusterView | None = None

    def router_came(self, now: float) -> None:
        self._router_up = True
        self._heard_at = now

    def router_went(self) -> None:
        self._router_up = False
        self.view = None

    def see(self, view: ClusterView, now: float) -> None:
        self.view = view
        self._heard_at = now

    def router_fell_silent(self, now: float) -> bool:
        """True once per silence: the router counts as lost from now on."""
        if self.view is None or now - self._heard_at <= VIEW_SILENCE_S:
            return False
        self.view = None
        return True

    @property
    def card(self) -> ModelCard | None:
        """The card that is served, if the cluster has one that we can read and write."""
        if self.view is None or self.view.card is None or self.foreign_tokenizer is not None:
            return None
        return self.view.card

    @property
    def foreign_tokenizer(self) -> str | None:
        """Digest of the cluster's tokenizer when it is not ours."""
        if self.view is None or self.view.card is None:
            return None
        digest = self.view.card.tokenizer_digest
        return None if digest == self._tokenizer_digest else digest

    def refusal(self) -> Failure | None:
        """Why nothing can be served now; None when something can."""
        if not self._router_up:
            return _refuse(ErrorCode.ROUTER_LOST, "there is no router")
        if self.view is None:
            return _refuse(ErrorCode.ROUTER_LOST, "the router does not answer")
        if self.foreign_tokenizer is not None:
            message = "the cluster serves a model with another tokenizer than this gateway's"
            return Failure(ErrorCode.NO_WORKER, message)
        if self.view.card is None or self.view.decode < 1:
            return _refuse(ErrorCode.NO_WORKER, "no worker is ready to serve the model")
        return None


def _refuse(code: ErrorCode, message: str) -> Failure:
    return Failure(code, message, retryable=True, retry_after_ms=RETRY_AFTER_MS)
