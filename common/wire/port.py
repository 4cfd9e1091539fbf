"""What a process sees of the wire: one bound port, links to peers, one handler.

The side that depends on the other connects: a gateway to its router, the router to workers, decode
to prefill and to gateways, workers to the kvstore. So whoever must act on a death holds the
connecting end, and its `on_down` fires when the kernel closes the connection; nobody waits for a
timeout except for a peer that hangs. Replies travel back over the connection that asked.

Implemented by ZeroMQ (zmq_port) and in memory (memory_port); one contract suite runs on both.
"""

from typing import Protocol

from common.domain.ids import ProcessId
from common.wire.messages import Message


class Link(Protocol):
    """One peer, reachable now or soon."""

    @property
    def peer(self) -> ProcessId | None:
        """Who is there; None for a link to a bare address, whoever answers."""

    def send(self, message: Message) -> bool:
        """Queue one message, in order. False: the peer is gone or will not take more; nothing was
        queued, and `on_down` comes or came if we are the connecting end."""

    def close(self) -> None:
        """Idempotent. No callback follows."""


class Handler(Protocol):
    """Called on the event loop, never concurrently. Must not block."""

    def on_message(self, link: Link, message: Message) -> None: ...

    def on_up(self, link: Link) -> None:
        """A connection we made is there, the first time or again: say hello."""

    def on_down(self, link: Link) -> None:
        """A connection we made broke. A link to a bare address reconnects by itself; a link to one
        life of a process is closed for good, also when that life is not there to be dialled or
        another one answers."""


class Port(Protocol):
    """The process's place on the wire."""

    @property
    def me(self) -> ProcessId: ...

    @property
    def address(self) -> str: ...

    def start(self, handler: Handler) -> None:
        """Bind and begin to deliver. Raises OSError if the address is taken."""

    def connect(self, address: str, expect: ProcessId | None = None) -> Link:
        """With `expect`, the link is to that life of that process alone. Raises ProtocolError on an
        address that is none."""

    def close(self) -> None: ...
