from aiohttp import web
from aiohttp.test_utils import TestServer

from deploy.local.admin_client import ask_all
from deploy.local.identity import Identity
from deploy.local.ports import free_ports
from deploy.local.state import ProcessState

LIVING = Identity(8, 80)


def process(port: int, identity: Identity | None = LIVING) -> ProcessState:
    return ProcessState(
        name="decode-0", role="decode", admin_port=port, identity=identity, restarts=0, ready=True
    )


async def answer_of(body: dict[str, object]) -> tuple[str, dict[str, object]]:
    async def status(request: web.Request) -> web.Response:
        return web.json_response(body)

    app = web.Application()
    app.router.add_get("/status", status)
    async with TestServer(app) as server:
        assert server.port is not None
        (report,) = await ask_all((process(server.port),))
    return report.answer, report.service


async def test_a_serving_process_is_ready_or_not() -> None:
    body = {"phase": "serving", "ready": True, "service": {"running": 1}}
    assert await answer_of(body) == ("ready", {"running": 1})
    assert await answer_of({**body, "ready": False}) == ("not ready", {"running": 1})


async def test_any_other_phase_is_shown() -> None:
    body = {"phase": "draining", "ready": False, "service": {}}
    assert await answer_of(body) == ("draining", {})


async def test_silence_and_death_are_told_apart() -> None:
    (port,) = free_ports(1)
    silent, dead = await ask_all((process(port), process(port, None)))
    assert (silent.answer, dead.answer) == ("no answer", "dead, restarting")
