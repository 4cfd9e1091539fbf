"""What every handler asks of the gateway: is it usable, which model, which names."""

import random

import pytest

from common.domain.errors import ErrorCode, ModelNotFound
from common.runtime.metrics import new_registry
from common.wire.memory_port import MemoryNetwork
from common.wire.messages.cluster import ClusterView
from services.gateway.app import GatewayApp
from services.gateway.exchange import AttemptLost
from services.gateway.http.call import Desk, clean_id
from services.gateway.mock_text import mock_text
from tests.support.gateway import CARD, GATEWAY


@pytest.fixture
async def desk() -> Desk:
    """Of a gateway that knows a cluster."""
    port = MemoryNetwork().port(GATEWAY, "mem://g")
    app = GatewayApp(port, "mem://router", mock_text(), random.Random(1), new_registry())
    app.desk.cluster.router_came(0.0)
    app.desk.cluster.see(ClusterView(CARD, prefill=0, decode=1), 0.0)
    return app.desk


@pytest.mark.parametrize("name", [None, "", "mock"])
async def test_the_model_there_is(desk: Desk, name: str | None) -> None:
    assert desk.card_for(name) == CARD


async def test_another_model_is_not_found(desk: Desk) -> None:
    with pytest.raises(ModelNotFound, match="gpt"):
        desk.card_for("gpt")


async def test_nothing_is_served_while_draining(desk: Desk) -> None:
    desk.draining = True
    with pytest.raises(AttemptLost) as caught:
        desk.card_for("mock")
    assert caught.value.code is ErrorCode.NO_WORKER
    assert caught.value.retryable


async def test_usable_is_not_ready_until_proven(desk: Desk) -> None:
    assert desk.refusal() is None
    assert not desk.ready
    desk.proven = lambda: True
    assert desk.ready
    desk.draining = True
    assert not desk.ready


async def test_ids_and_seeds_are_drawn_anew(desk: Desk) -> None:
    ids, seeds = {desk.new_id() for _ in range(9)}, {desk.new_seed() for _ in range(9)}
    assert len(ids) == len(seeds) == 9
    assert all(len(name) == 24 for name in ids)
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [(None, ""), ("", ""), ("a-B_9", "a-B_9"), ("a/../b\r\nX: y", "abXy"), ("é", ""),
     ("x" * 65, "x" * 64)],
)  # fmt: skip
def test_foreign_ids_are_cleaned(raw: str | None, clean: str) -> None:
    assert clean_id(raw) == clean
