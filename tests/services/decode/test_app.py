"""The decode worker is a worker of that role, built from its settings."""

from pathlib import Path

from common.domain.peer import Role
from services.decode.app import build
from services.decode.settings import DecodeSettings
from tests.support.ports import process
from tests.support.worker_settings import worker_settings


async def test_it_is_a_worker_of_its_role(tmp_path: Path) -> None:
    settings = worker_settings(tmp_path, DecodeSettings, name="decode-0")
    assert isinstance(settings, DecodeSettings)
    app = build(settings, process("decode-0", 7))
    await app.start()
    try:
        assert app.status()["role"] == Role.DECODE.name.lower()
        assert app.status()["attempts"] == app.status()["hand_offs"] == 0
        assert not app.ready(), "there is no router"
        assert (tmp_path / "decode-0").exists(), "it is bound where it was told to be"
    finally:
        await app.stop()
