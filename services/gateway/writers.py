"""The workers that write our streams: one link to each, and when each was last heard.

A writer is lost when its connection breaks (`down`), or when nothing came from it for SILENCE_S:
no pulse and no token, so it neither speaks nor steps. A link is shared by all streams of its
writer; it is closed when none uses it and nothing was heard for IDLE_S.

A Placed may cross the death of its writer on the way. A connection to the dead would wait for ever,
so whose connection broke just now is not dialled again for SILENCE_S.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from common.domain.ids import AttemptKey, ProcessId
from common.domain.peer import PeerRef
from common.wire.messages import Message
from common.wire.messages.work import Renew
from common.wire.port import Link, Port

SILENCE_S = 3.0
IDLE_S = 10.0


@dataclass(slots=True)
class _Writer:
    link: Link | None
    heard_at: float


class Writers:
    def __init__(self, port: Port) -> None:
        self._port = port
        self._writers: dict[ProcessId, _Writer] = {}
        self._died_at: dict[ProcessId, float] = {}

    def __len__(self) -> int:
        return len(self._writers)

    def watch(self, ref: PeerRef, now: float) -> bool:
        """A stream is placed there: connect, and expect a sign of life from now on. False: it has
        just died."""
        if now - self._died_at.get(ref.id, -SILENCE_S) < SILENCE_S:
            return False
        writer = self._writers.setdefault(ref.id, _Writer(None, now))
        writer.heard_at = now
        if writer.link is None:
            writer.link = self._port.connect(ref.address, ref.id)
        return True

    def heard(self, writer: ProcessId, now: float) -> None:
        """Tokens of a live stream came; perhaps no Placed has named their writer yet."""
        self._writers.setdefault(writer, _Writer(None, now)).heard_at = now

    def pulsed(self, writer: ProcessId, now: float) -> None:
        """A heartbeat came. Of one who writes nothing for us it is no news."""
        if writer in self._writers:
            self._writers[writer].heard_at = now

    def connected(self, writer: ProcessId) -> bool:
        return writer in self._writers and self._writers[writer].link is not None

    def down(self, link: Link, now: float) -> ProcessId | None:
        """The writer that this link went to, now forgotten."""
        for name, writer in self._writers.items():
            if writer.link is link:
                del self._writers[name]
                self._died_at = {
                    dead: at for dead, at in self._died_at.items() if now - at < SILENCE_S
                }
                self._died_at[name] = now
                return name
        return None

    def silent(self, busy: Mapping[ProcessId, Sequence[AttemptKey]], now: float) -> list[ProcessId]:
        """Writers with live streams that are lost, now forgotten; idle ones are dropped unsaid."""
        lost = [
            name
            for name, writer in self._writers.items()
            if name in busy and now - writer.heard_at > SILENCE_S
        ]
        idle = [
            name
            for name, writer in self._writers.items()
            if name not in busy and now - writer.heard_at > IDLE_S
        ]
        for name in [*lost, *idle]:
            link = self._writers.pop(name).link
            if link is not None:
                link.close()
        return lost

    def renew(self, busy: Mapping[ProcessId, Sequence[AttemptKey]]) -> None:
        """Tell each writer which attempts still have a client."""
        for name, keys in busy.items():
            self.send(name, Renew(tuple(keys)))

    def send(self, writer: ProcessId, message: Message) -> bool:
        known = self._writers.get(writer)
        return known is not None and known.link is not None and known.link.send(message)

    def close(self) -> None:
        for writer in self._writers.values():
            if writer.link is not None:
                writer.link.close()
        self._writers.clear()
