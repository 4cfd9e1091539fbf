"""Settings: names of the environment, bounds, defaults."""

from typing import get_args

import pytest
from pydantic import ValidationError

from common.runtime.settings import EngineName
from services.gateway.settings import GatewaySettings

NEEDED = {
    "TWINFLEET_NAME": "gateway-0",
    "TWINFLEET_RUN_DIR": "/run/x",
    "TWINFLEET_BIND_ADDRESS": "ipc:///run/x/gateway-0",
    "TWINFLEET_ROUTER_ADDRESS": "ipc:///run/x/router-0",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)


def test_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINFLEET_ENGINE", "mock")
    monkeypatch.setenv("TWINFLEET_HTTP_PORT", "0")
    settings = GatewaySettings()
    assert (settings.engine, settings.http_port) == ("mock", 0)
    assert settings.http_host == "127.0.0.1"


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_every_engine_of_the_workers_can_be_named(
    monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setenv("TWINFLEET_ENGINE", engine)
    assert GatewaySettings().engine == engine


@pytest.mark.parametrize(
    ("name", "value"),
    [("HTTP_PORT", "70000"), ("ENGINE", "magic"), ("CLIENT_STALL_S", "0"), ("NAME", "No Spaces")],
)
def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"TWINFLEET_{name}", value)
    with pytest.raises(ValidationError):
        GatewaySettings()


def test_every_field_is_described() -> None:
    assert all(field.description for field in GatewaySettings.model_fields.values())
