import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from deploy.local.errors import DeployError
from deploy.local.ports import free_ports
from deploy.local.trace import request_trace


async def ask(request_id: str) -> str:
    async def answer(request: web.Request) -> web.Response:
        if request.match_info["id"] == "broken":
            return web.Response(status=500, text="oh")
        if request.match_info["id"] != "r1":
            return web.json_response({"error": "unknown"}, status=404)
        return web.json_response({"id": "r1", "attempts": 2})

    app = web.Application()
    app.router.add_get("/debug/requests/{id}", answer)
    async with TestServer(app) as server:
        return await request_trace(str(server.make_url("")), request_id)


async def test_a_request_is_shown_as_the_gateway_tells_it() -> None:
    assert await ask("r1") == '{\n  "id": "r1",\n  "attempts": 2\n}'


@pytest.mark.parametrize(
    ("request_id", "complaint"), [("r2", "remembers no request r2"), ("broken", "answered 500: oh")]
)
async def test_what_cannot_be_shown_is_a_message(request_id: str, complaint: str) -> None:
    with pytest.raises(DeployError, match=complaint):
        await ask(request_id)


async def test_a_gateway_that_is_gone_is_a_message() -> None:
    (port,) = free_ports(1)
    with pytest.raises(DeployError, match="does not answer"):
        await request_trace(f"http://127.0.0.1:{port}", "r1")
