from collections.abc import AsyncIterator, Mapping

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import Counter

from common.domain.errors import InvalidRequest, StoreUnavailable
from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.runtime import metrics
from common.runtime.admin import AdminAction, AdminServer, Phase


class Sample:
    def __init__(self) -> None:
        self.registry = metrics.new_registry()
        Counter("twinfleet_steps", "Steps.", registry=self.registry).inc(2)
        self.is_ready = True
        self.status_asked = 0

    def ready(self) -> bool:
        return self.is_ready

    def status(self) -> dict[str, object]:
        self.status_asked += 1
        return {"running": 4}

    def routes(self) -> Mapping[str, AdminAction]:
        return {"POST /reset": self.reset, "POST /bad": self.bad, "POST /away": self.away}

    async def reset(self) -> Mapping[str, object]:
        return {"dropped": 7}

    async def bad(self) -> Mapping[str, object]:
        raise InvalidRequest("no such thing")

    async def away(self) -> Mapping[str, object]:
        raise StoreUnavailable("not now")


@pytest.fixture
def sample() -> Sample:
    return Sample()


@pytest.fixture
def admin(sample: Sample) -> AdminServer:
    return AdminServer(sample, ProcessId(ProcessName("decode-0"), Incarnation(255)))


@pytest.fixture
async def client(admin: AdminServer) -> AsyncIterator[TestClient]:
    async with TestClient(TestServer(admin.application())) as client:
        yield client


@pytest.mark.parametrize("phase", list(Phase))
async def test_liveness_answers_in_every_phase(
    admin: AdminServer, client: TestClient, phase: Phase
) -> None:
    admin.phase = phase
    assert (await client.get("/live")).status == 200


@pytest.mark.parametrize(
    ("phase", "service_ready", "status"),
    [
        (Phase.STARTING, True, 503),
        (Phase.SERVING, False, 503),
        (Phase.SERVING, True, 200),
        (Phase.DRAINING, True, 503),
    ],
)
async def test_ready_only_while_serving_and_the_service_agrees(
    admin: AdminServer,
    client: TestClient,
    sample: Sample,
    *,
    phase: Phase,
    service_ready: bool,
    status: int,
) -> None:
    admin.phase, sample.is_ready = phase, service_ready
    answer = await client.get("/ready")
    assert answer.status == status
    assert await answer.json() == {"ready": status == 200, "phase": phase}


async def test_status_says_who_this_is_and_what_the_service_adds(
    admin: AdminServer, client: TestClient
) -> None:
    admin.phase = Phase.SERVING
    body = await (await client.get("/status")).json()
    assert body["name"] == "decode-0"
    assert body["incarnation"] == "00000000000000ff"
    assert body["service"] == {"running": 4}


async def test_a_service_that_has_not_started_is_not_asked_for_its_status(
    client: TestClient, sample: Sample
) -> None:
    assert (await (await client.get("/status")).json())["service"] == {}
    assert sample.status_asked == 0


async def test_metrics_are_the_services(client: TestClient) -> None:
    assert "twinfleet_steps_total 2.0" in await (await client.get("/metrics")).text()


async def test_an_action_answers_json(client: TestClient) -> None:
    assert await (await client.post("/reset")).json() == {"dropped": 7}
    assert (await client.get("/reset")).status == 405


@pytest.mark.parametrize(
    ("path", "status", "message"), [("/bad", 400, "no such thing"), ("/away", 503, "not now")]
)
async def test_an_actions_refusal_is_an_answer(
    client: TestClient, path: str, status: int, message: str
) -> None:
    answer = await client.post(path)
    assert answer.status == status
    assert await answer.json() == {"error": message}
