from pathlib import Path

import pytest
from pydantic import Field, ValidationError

from common.runtime.settings import ProcessSettings

NEEDED = {
    "TWINFLEET_NAME": "decode-0",
    "TWINFLEET_RUN_DIR": "/run/here",
    "TWINFLEET_BIND_ADDRESS": "ipc:///run/here/decode-0",
}


class PoolSettings(ProcessSettings):
    kv_pool_bytes: int = Field(default=7, description="Bytes of the pool.")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in NEEDED.items():
        monkeypatch.setenv(name, value)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINFLEET_ADMIN_PORT", "8123")
    monkeypatch.setenv("TWINFLEET_KV_POOL_BYTES", "4096")
    settings = PoolSettings()
    assert settings.name == "decode-0"
    assert settings.run_dir == Path("/run/here")
    assert settings.admin_port == 8123
    assert settings.kv_pool_bytes == 4096


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="kv_pool_bites"):
        PoolSettings(kv_pool_bites=1)  # type: ignore[call-arg]


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        PoolSettings().admin_port = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "Decode-0", "a/b", "a b", "../x", "x" * 65])
def test_a_name_is_safe_as_a_file_name_and_an_identity(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINFLEET_NAME", name)
    with pytest.raises(ValidationError, match="name"):
        PoolSettings()


def test_a_missing_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWINFLEET_BIND_ADDRESS")
    with pytest.raises(ValidationError, match="bind_address"):
        PoolSettings()
