"""The served model, listed and found."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from common.domain.finish import FinishReason
from tests.support.gateway import Gateway, running_gateway, until


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        cluster = running.cluster
        cluster.script = lambda asked: cluster.play(asked, [b"ok"], FinishReason.LENGTH)
        yield running


async def get(gateway: Gateway, path: str) -> tuple[int, Any]:
    async with gateway.http.get(gateway.url + path) as response:
        return response.status, await response.json()


async def test_the_model_is_listed_and_found(gateway: Gateway) -> None:
    status, listed = await get(gateway, "/v1/models")
    assert status == 200
    (model,) = listed["data"]
    assert model["id"] == "mock"
    assert model["object"] == "model"
    assert model["max_model_len"] == 256
    assert await get(gateway, "/v1/models/mock") == (200, model)
    status, body = await get(gateway, "/v1/models/other/one")
    assert status == 404
    assert body["error"]["code"] == "model_not_found"


async def test_no_model_is_listed_while_there_is_none(gateway: Gateway) -> None:
    gateway.cluster.show(replace(gateway.cluster.view, card=None))
    await until(lambda: not gateway.app.desk.ready)
    assert (await get(gateway, "/v1/models"))[1] == {"object": "list", "data": []}
