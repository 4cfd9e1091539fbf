import asyncio
import os
from pathlib import Path

import pytest

from deploy.local import child as child_module
from deploy.local.child import Child
from deploy.local.plan import ProcessSpec


def spec(module: str, **env: str) -> ProcessSpec:
    return ProcessSpec(name="decode-0", role="decode", module=module, admin_port=1, env=env)


async def never(spec: ProcessSpec) -> bool:
    return False


@pytest.mark.cluster
async def test_a_process_that_ends_is_started_again_until_it_is_hopeless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[int] = []

    async def at_once(event: object, limit_s: float) -> None:
        stops.append(round(limit_s * 1000))

    monkeypatch.setattr(child_module, "_either", at_once)
    child = Child(spec("this"), tmp_path / "log", never, lambda: None)
    running = asyncio.create_task(child.keep_running())
    await child.hopeless.wait()
    assert child.starts == 3
    assert stops[:2] == [200, 400]
    await child.stop(running)
    assert child.identity is None
    assert (tmp_path / "log").read_text().count("Zen of Python") >= 3


@pytest.mark.cluster
async def test_a_child_sees_its_own_settings_and_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "show.py").write_text(
        "import os\nfor k in sorted(os.environ):\n"
        "    if k.startswith('TWINFLEET_'): print(k, os.environ[k], flush=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TWINFLEET_POLICY", "ours")
    monkeypatch.setattr(child_module, "STARTS_BEFORE_HOPELESS", 1)
    child = Child(spec("show", TWINFLEET_NAME="decode-0"), tmp_path / "log", never, lambda: None)
    running = asyncio.create_task(child.keep_running())
    await child.hopeless.wait()
    await child.stop(running)
    seen = (tmp_path / "log").read_text().splitlines()
    assert seen[:2] == ["TWINFLEET_NAME decode-0", f"TWINFLEET_SUPERVISOR_PID {os.getpid()}"]
    assert "ours" not in " ".join(seen)


@pytest.mark.cluster
async def test_a_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf.py").write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True)\ntime.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(child_module, "KILL_AFTER_S", 0.3)

    async def printed(spec: ProcessSpec) -> bool:
        return (tmp_path / "log").read_text() == "deaf\n"

    child = Child(spec("deaf"), tmp_path / "log", printed, lambda: None)
    running = asyncio.create_task(child.keep_running())
    await child.was_ready.wait()
    assert child.ready
    await child.stop(running)
    assert running.done()
    assert not child.ready
    assert child.identity is None
