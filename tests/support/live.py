"""A real cluster of real processes, started and stopped the way `make up` and `make down` do."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from deploy.local.folders import Folders
from deploy.local.ports import free_ports
from deploy.local.state import ClusterState, ProcessState, read_state

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]
TOPOLOGIES = ROOT / "tests" / "cluster" / "topologies"
WORKER_HOLDS = ("blocks_used", "blocks_pinned", "attempts", "hand_offs", "unacknowledged")


@dataclass(frozen=True, slots=True)
class Answer:
    """Whatever the status."""

    status: int
    headers: Mapping[str, str]
    body: Json


class Live:
    """Handles of one running cluster."""

    def __init__(self, run: Path, port: int) -> None:
        self._folders = Folders(run)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    @property
    def state(self) -> ClusterState:
        state = read_state(self._folders.state)
        assert state is not None
        return state

    def processes(self, role: str = "") -> list[ProcessState]:
        return [process for process in self.state.processes if role in ("", process.role)]

    def process(self, name: str) -> ProcessState:
        (process,) = [process for process in self.state.processes if process.name == name]
        return process

    def pids(self) -> dict[str, int]:
        state = self.state
        pids = {p.name: p.identity.pid for p in state.processes if p.identity is not None}
        return pids | {"supervisor": state.supervisor.pid}

    def kill(self, name: str) -> int:
        """SIGKILL; returns the pid that was."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def log(self, name: str) -> str:
        return self._folders.log(name).read_text()

    def status(self, name: str) -> Json:
        """What the process says of itself."""
        return admin(self.process(name).admin_port, "GET /status")["service"]

    def admin(self, name: str, action: str) -> Json:
        return admin(self.process(name).admin_port, action)

    def post(self, path: str, body: Json, timeout: float = 120.0) -> Json:
        """Raises HTTPError on anything but 200."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)

    def ask(self, path: str, body: Json) -> Answer:
        """As `post`, but an error is an answer too."""
        try:
            return Answer(200, {}, self.post(path, body))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, dict(error.headers), json.load(error))

    def events(self, path: str, body: Json) -> list[Json]:
        """All frames of a streamed answer, which must end with [DONE]."""
        request = urllib.request.Request(
            self.url + path,
            json.dumps(body | {"stream": True}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as reply:
            frames = [line[6:].strip() for line in reply if line.startswith(b"data: ")]
        assert frames[-1] == b"[DONE]"
        return [json.loads(frame) for frame in frames[:-1]]

    def get(self, path: str) -> Json:
        with urllib.request.urlopen(self.url + path, timeout=10) as reply:
            return json.load(reply)

    def complete(self, prompt: list[int], max_tokens: int, **fields: Any) -> Json:
        """One greedy completion over token ids; the answer has `token_ids` and a `ledger`."""
        body: Json = {
            "prompt": prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "return_token_ids": True,
        } | fields
        answer = self.post("/v1/completions", body)
        answer["streams"] = self.get(f"/debug/requests/{answer['id']}")["streams"]
        return answer

    def holds(self) -> dict[str, Json]:
        """What any process still keeps for some request, by its name."""
        held: dict[str, Json] = {}
        for process in self.processes():
            status = self.status(process.name)
            match process.role:
                case "prefill" | "decode":
                    own = {key: status[key] for key in WORKER_HOLDS}
                case "kvstore":
                    own = {"leases": status["leases"], **_filling(status)}
                case "router":
                    own = {"queue_length": status["queue_length"], **status["attempts"]}
                case "gateway":
                    own = {"running": status["running"]}
            if any(own.values()):
                held[process.name] = {key: value for key, value in own.items() if value}
        return held

    def wait_until(self, name: str, condition: Callable[[Json], bool], limit_s: float = 5) -> None:
        """Of what the process says of itself."""
        wait_until(
            lambda: condition(self.status(name)), limit_s, lambda: f"{name} is {self.status(name)}"
        )

    def wait_until_nothing_is_held(self, limit_s: float) -> float:
        return wait_until(
            lambda: not self.holds(), limit_s, lambda: f"nothing held, but {self.holds()}"
        )

    def is_ready(self) -> bool:
        try:
            return bool(self.get("/ready")["status"] == "ok")
        except (OSError, urllib.error.HTTPError):
            return False


def _filling(store: Json) -> Json:
    return {key: store["slots"][key] for key in ("leased", "filling")}


def admin(port: int, action: str) -> Json:
    method, path = action.split()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def wait_until(
    condition: Callable[[], bool], limit_s: float, what: str | Callable[[], object]
) -> float:
    """Seconds it took. Fails with `what` at the limit."""
    started = time.monotonic()
    while time.monotonic() - started < limit_s:
        if condition():
            return time.monotonic() - started
        time.sleep(0.05)
    raise AssertionError(f"not within {limit_s} s: {what() if callable(what) else what}")


def run_local(run: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """`python -m deploy.local`; fails with what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "deploy.local", "--run", str(run), *arguments],
        cwd=ROOT,
        env=os.environ | (env or {}),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def live_cluster(
    run: Path, topology: str, model: str = "", env: dict[str, str] | None = None
) -> Iterator[Live]:
    """Up, then down, then nothing of it may be left."""
    (port,) = free_ports(1)
    try:
        run_local(run, "up", "--topology", topology, "--model", model, "--port", str(port), env=env)
        live = Live(run, port)
        yield live
    finally:
        run_local(run, "down")
    assert_nothing_left(run)


def assert_nothing_left(run: Path) -> None:
    """No process, no socket: shared memory has no name and goes with its processes."""
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(run) in _environment(p)]
    assert not mine
    assert not [path for path in run.rglob("*") if path.is_socket()]


def _environment(process: psutil.Process) -> str:
    try:
        return " ".join(process.environ().values()) if process.pid != os.getpid() else ""
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return ""
