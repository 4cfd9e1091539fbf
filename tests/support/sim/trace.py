"""What happened, in order: a hash of all of it, and its last lines for people."""

import hashlib
from collections import deque

LAST = 400


class Trace:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=LAST)
        self.events = 0

    def note(self, now: float, who: str, what: str, payload: bytes = b"") -> None:
        """Goes into the hash."""
        self.events += 1
        self._hash.update(f"{now!r} {who} {what} {len(payload)}\n".encode())
        self._hash.update(payload)

    def tell(self, now: float, who: str, line: str) -> None:
        """For people only."""
        self.lines.append(f"{now:9.4f} {who:>10} {line}")

    def digest(self) -> str:
        return self._hash.hexdigest()
