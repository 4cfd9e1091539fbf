import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deploy.local.demo import Timing, stream_answer
from deploy.local.errors import DeployError
from deploy.local.ports import free_ports


def chunk(text: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}}]}


async def streamed(
    events: list[dict[str, object]], status: int = 200
) -> tuple[list[str], Timing, list[dict[str, object]]]:
    asked: list[dict[str, object]] = []

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny"}]})

    async def chat(request: web.Request) -> web.Response:
        asked.append(await request.json())
        lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        return web.Response(text=f": ping\n\n{lines}data: [DONE]\n\n", status=status)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/chat/completions", chat)
    shown: list[str] = []
    async with TestServer(app) as server:
        timing = await stream_answer(str(server.make_url("")), "Hi?", shown.append)
    return shown, timing, asked


async def test_text_is_shown_as_it_comes_and_tokens_are_the_servers_count() -> None:
    role = {"choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    usage = {"choices": [], "usage": {"completion_tokens": 5}}
    shown, timing, asked = await streamed([role, chunk("It "), chunk("is."), usage])
    assert shown == ["It ", "is."]
    assert timing.tokens == 5
    assert 0 < timing.first_s <= timing.last_s
    assert asked[0]["model"] == "tiny"
    assert asked[0]["messages"] == [{"role": "user", "content": "Hi?"}]
    assert asked[0]["stream"] is True


async def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(DeployError, match="answered 503"):
        await streamed([], status=503)


async def test_an_error_inside_the_stream_is_not_an_answer() -> None:
    with pytest.raises(DeployError, match="worker lost"):
        await streamed([chunk("It "), {"error": {"message": "worker lost"}}])


async def test_without_a_gateway_it_says_how_to_start_one() -> None:
    (port,) = free_ports(1)
    with pytest.raises(DeployError, match="make up"):
        await stream_answer(f"http://127.0.0.1:{port}", "Hi?", lambda text: None)


def test_the_rate_counts_gaps_not_tokens() -> None:
    assert Timing(0.5, 1.5, 11).sentence() == "11 tokens, first after 500 ms, then 10.0 tokens/s"
    assert Timing(0.5, 0.5, 1).sentence() == "1 tokens, first after 500 ms"
