"""Paths, methods, bodies: what is wrong as HTTP gets JSON like everything else."""

import io
import json
from collections.abc import AsyncIterator

import pytest

from services.gateway.http.server import MAX_BODY_BYTES
from tests.support.gateway import Gateway, running_gateway

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with running_gateway() as running:
        yield running


def assert_error(body: dict[str, dict[str, object]], kind: str = "invalid_request_error") -> None:
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["type"] == kind
    assert body["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/chat", "/v1/models/", "/debug/requests/none"])
async def test_unknown_paths_are_json_404(gateway: Gateway, path: str) -> None:
    async with gateway.http.get(gateway.url + path) as response:
        if path == "/v1/models/":
            assert response.status == 200
            return
        assert response.status == 404
        assert_error(await response.json())


@pytest.mark.parametrize(("method", "path"), [("GET", CHAT), ("POST", "/health"), ("PUT", CHAT)])
async def test_wrong_methods_are_json_405_and_name_the_right_ones(
    gateway: Gateway, method: str, path: str
) -> None:
    async with gateway.http.request(method, gateway.url + path) as response:
        assert response.status == 405
        assert response.headers["Allow"] in ("POST", "GET")
        assert_error(await response.json())


@pytest.mark.parametrize("path", ["//v1//models", "/v1/models/", "///v1/models//mock"])
async def test_doubled_slashes_are_tolerated(gateway: Gateway, path: str) -> None:
    async with gateway.http.get(gateway.url + path) as response:
        assert response.status == 200


async def test_a_body_beyond_the_limit_is_json_413(gateway: Gateway) -> None:
    headers = {"Content-Type": "application/json"}
    data = io.BytesIO(b" " * (MAX_BODY_BYTES + 1))
    async with gateway.http.post(gateway.url + CHAT, data=data, headers=headers) as response:
        assert response.status == 413
        assert_error(await response.json())


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_another_media_type_is_json_415(gateway: Gateway, kind: str) -> None:
    data, headers = json.dumps(HELLO), {"Content-Type": kind}
    async with gateway.http.post(gateway.url + CHAT, data=data, headers=headers) as response:
        assert response.status == 415
        assert_error(await response.json())


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'"x"', b"null", b"\xff", b'{"model": "\\ud800"}', b"[" * 10_000]
)
async def test_what_is_no_json_object_is_400(gateway: Gateway, data: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    async with gateway.http.post(gateway.url + CHAT, data=data, headers=headers) as response:
        assert response.status == 400
        assert_error(await response.json())
    assert (await gateway.http.get(gateway.url + "/ready")).status == 200


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [("abc-DEF_9", "abc-DEF_9"), ("a b/c\u00e9;d", "abcd"), ("x" * 99, "x" * 64)],
)
async def test_the_clients_request_id_is_cleaned_and_echoed(
    gateway: Gateway, sent: str, echoed: str
) -> None:
    headers = {"X-Request-Id": sent}
    async with gateway.http.post(gateway.url + CHAT, json={}, headers=headers) as response:
        assert response.headers["X-Request-Id"] == echoed


@pytest.mark.parametrize("sent", ["", "///", None])
async def test_without_a_usable_id_ours_is_told(gateway: Gateway, sent: str | None) -> None:
    headers = {} if sent is None else {"X-Request-Id": sent}
    async with gateway.http.get(gateway.url + "/v1/models", headers=headers) as response:
        assert len(response.headers["X-Request-Id"]) == 24


async def test_refusals_are_counted_by_whose_fault_they_are(gateway: Gateway) -> None:
    await gateway.post(CHAT, {})
    gateway.cluster.kill_router()
    while gateway.app.desk.ready:
        await gateway.http.get(gateway.url + "/live")
    status, body, headers = await gateway.post(CHAT, HELLO)
    assert status == 503
    assert_error(body, "overloaded_error")
    assert body["error"]["code"] == "server_is_overloaded"
    assert headers["Retry-After"] == "1"
    assert headers["retry-after-ms"] == "1000"
    assert headers["x-should-retry"] == "true"
    assert gateway.counter("requests_total", endpoint="chat", outcome="invalid") == 1
    assert gateway.counter("requests_total", endpoint="chat", outcome="refused") == 1


async def test_a_crash_in_a_handler_is_a_500_that_is_not_retried(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(gateway.app.desk), "card_for", crash)
    status, body, headers = await gateway.post(CHAT, HELLO)
    assert status == 500
    assert_error(body, "server_error")
    assert headers["x-should-retry"] == "false"
