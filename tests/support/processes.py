"""Starting the fake service as a real process and talking to its admin port."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def until(condition: Callable[[], bool], limit_s: float = 10.0) -> float:
    """Seconds it took; AssertionError past the limit."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < limit_s, "what was waited for did not happen"
        time.sleep(0.02)
    return time.monotonic() - started


def answer(port: int, path: str) -> tuple[int, dict[str, object]]:
    """Status 0: nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


class FakeProcess:
    """One fake service without a supervisor. A context manager: it never outlives the test."""

    def __init__(self, run_dir: Path, **env: str) -> None:
        self.port = free_port()
        self.journal = run_dir / "journal"
        self._log = (run_dir / "log").open("w+")
        self.child = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fake_service"],
            cwd=ROOT,
            stderr=self._log,
            env={
                **os.environ,
                "TWINFLEET_NAME": "fake-0",
                "TWINFLEET_RUN_DIR": str(run_dir),
                "TWINFLEET_BIND_ADDRESS": f"ipc://{run_dir}/fake-0",
                "TWINFLEET_ADMIN_PORT": str(self.port),
                "FAKE_JOURNAL": str(self.journal),
                **env,
            },
        )

    def __enter__(self) -> "FakeProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self.child.kill()
        self.child.wait()
        self._log.close()

    def status(self, path: str) -> int:
        return answer(self.port, path)[0]

    def ask_to_stop(self) -> None:
        self.child.send_signal(signal.SIGTERM)

    def events(self) -> list[dict[str, object]]:
        self._log.seek(0)
        return [json.loads(line) for line in self._log.read().splitlines()]

    def notes(self) -> list[str]:
        return [line.split()[1] for line in self.journal.read_text().splitlines()]
