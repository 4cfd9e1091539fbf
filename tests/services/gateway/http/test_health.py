"""Health, metrics, version, and the story of a request."""

from collections.abc import AsyncIterator
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


async def test_health_follows_the_cluster_and_live_does_not(gateway: Gateway) -> None:
    status, body = await get(gateway, "/health")
    assert (status, body["status"]) == (200, "ok")
    gateway.cluster.kill_router()
    await until(lambda: not gateway.app.desk.ready)
    for path in ("/health", "/ready"):
        status, body = await get(gateway, path)
        assert (status, body["status"]) == (503, "unavailable")
        assert body["reason"] == "there is no router"
    assert (await get(gateway, "/live"))[0] == 200


async def test_metrics_speak_prometheus(gateway: Gateway) -> None:
    await gateway.post("/v1/completions", {"prompt": "hi", "max_tokens": 2})
    async with gateway.http.get(gateway.url + "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = (await response.text()).splitlines()
    done = 'twinfleet_gateway_requests_total{endpoint="completions",outcome="finished"} 1.0'
    assert done in lines
    assert "twinfleet_gateway_requests_running 0.0" in lines


async def test_version(gateway: Gateway) -> None:
    status, body = await get(gateway, "/version")
    assert status == 200
    assert body["version"].count(".") == 2


async def test_the_story_of_a_request_by_each_of_its_names(gateway: Gateway) -> None:
    body = {"prompt": "hi", "max_tokens": 2, "request_id": "mine/9"}
    _, answer, headers = await gateway.post("/v1/completions", body)
    assert headers["X-Request-Id"] == "mine9"
    own = answer["id"].removeprefix("cmpl-")
    told = [(await get(gateway, f"/debug/requests/{name}"))[1] for name in
            (own, answer["id"], "mine9")]  # fmt: skip
    assert told[0]["id"] == told[1]["id"] == told[2]["id"] == own
    (stream,) = told[0]["streams"]
    assert stream["state"] == "finished"
    assert [line["event"] for line in stream["story"]] == [
        "AttemptPlaced", "TokensCame", "TokensCame", "WriterDone"
    ]  # fmt: skip
    assert stream["ledger"]["cached_device_tokens"] == 16
    assert (await get(gateway, "/debug/requests/nobody"))[0] == 404
