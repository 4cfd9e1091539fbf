"""What the gateway believes of the cluster, and for how long."""

from dataclasses import replace

from common.domain.errors import ErrorCode
from common.wire.messages.cluster import ClusterView
from services.gateway.cluster import VIEW_SILENCE_S, ClusterState
from tests.support.gateway import CARD

VIEW = ClusterView(CARD, prefill=1, decode=2)


def state(view: ClusterView | None = VIEW) -> ClusterState:
    cluster = ClusterState(CARD.tokenizer_digest)
    cluster.router_came(0.0)
    if view is not None:
        cluster.see(view, 0.0)
    return cluster


def refused(cluster: ClusterState) -> ErrorCode | None:
    refusal = cluster.refusal()
    return None if refusal is None else refusal.code


def test_usable_with_a_router_a_card_and_a_decode_worker() -> None:
    cluster = state()
    assert refused(cluster) is None
    assert cluster.card == CARD


def test_refused_without_a_router_a_view_a_card_or_a_decode_worker() -> None:
    assert refused(ClusterState("d")) is ErrorCode.ROUTER_LOST
    assert refused(state(None)) is ErrorCode.ROUTER_LOST
    assert refused(state(replace(VIEW, card=None))) is ErrorCode.NO_WORKER
    assert refused(state(replace(VIEW, decode=0))) is ErrorCode.NO_WORKER


def test_every_refusal_that_may_pass_says_when_to_come_back() -> None:
    refusal = ClusterState("d").refusal()
    assert refusal is not None
    assert refusal.retryable
    assert refusal.retry_after_ms > 0


def test_a_card_of_another_tokenizer_is_not_served() -> None:
    cluster = state(replace(VIEW, card=replace(CARD, tokenizer_digest="theirs")))
    refusal = cluster.refusal()
    assert refusal is not None
    assert refusal.code is ErrorCode.NO_WORKER
    assert not refusal.retryable
    assert cluster.card is None
    assert cluster.foreign_tokenizer == "theirs"


def test_the_view_goes_with_the_router() -> None:
    cluster = state()
    cluster.router_went()
    cluster.router_came(1.0)
    assert refused(cluster) is ErrorCode.ROUTER_LOST


def test_a_silent_router_is_lost_once() -> None:
    cluster = state()
    assert not cluster.router_fell_silent(VIEW_SILENCE_S)
    assert cluster.router_fell_silent(VIEW_SILENCE_S + 0.1)
    assert not cluster.router_fell_silent(VIEW_SILENCE_S + 0.2)
    assert refused(cluster) is ErrorCode.ROUTER_LOST
    cluster.see(VIEW, 9.0)
    assert refused(cluster) is None
