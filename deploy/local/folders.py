"""The run folder: where the files of one local cluster lie.

    .run/lock         held by `up`, then by the supervisor, as long as it lives
    .run/state.json   what runs; written by the supervisor alone
    .run/plan.json    what shall run; written by `up`
    .run/logs/        one file a process, and the supervisor's own
    .run/sockets/     or a folder under /tmp when this path is too long for a socket

Everything is for its owner only: whoever can connect to a socket can submit work.
"""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from deploy.local.errors import DeployError

SOCKET_PATH_LIMIT = 107
"""sun_path has 108 bytes, one of them the final zero."""
NAME_RESERVE = 45
"""Left for a socket's file name."""


@dataclass(frozen=True, slots=True)
class Folders:
    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"

    @property
    def sockets(self) -> Path:
        return short_socket_folder(self.root.absolute() / "sockets", Path("/tmp"), os.getuid())

    def create(self) -> None:
        for folder in (self.root, self.logs, self.sockets):
            _make_private(folder)

    def remove_sockets(self) -> None:
        """Sockets left by processes that are gone, and the folder when it is empty then."""
        if not self.sockets.is_dir():
            return
        for path in self.sockets.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        if not any(self.sockets.iterdir()):
            self.sockets.rmdir()


def short_socket_folder(wanted: Path, temporary: Path, uid: int) -> Path:
    """`wanted`, or a folder under `temporary` that is its own for each wanted path and user."""
    if len(os.fsencode(wanted)) + 1 + NAME_RESERVE <= SOCKET_PATH_LIMIT:
        return wanted
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:12]
    return temporary / f"twinfleet-{uid}-{digest}"


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        # Under /tmp anybody could have made it first, or put a link in its place.
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise DeployError(f"{folder} belongs to somebody else: remove it and try again")
        folder.chmod(0o700)
    except OSError as error:
        raise DeployError(f"cannot use {folder}: {error.strerror}") from error
