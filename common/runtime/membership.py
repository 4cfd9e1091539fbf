"""A process's place in the cluster: its link to the router, and Hello on every connection.

The link is to a bare address: whoever answers there is the router, also after a restart. Nothing is
queued while it is away; a caller that gets False decides what that means for its work.
"""

from collections.abc import Callable

from common.wire.messages import Message
from common.wire.messages.cluster import Hello
from common.wire.port import Link, Port


class RouterLink:
    """The service passes its on_up and on_down on; both say whether the link was the router's."""

    def __init__(self, port: Port, router_address: str, hello: Callable[[], Hello]) -> None:
        self._port = port
        self._address = router_address
        self._hello = hello
        self._link: Link | None = None
        self._up = False

    def start(self) -> None:
        """Dial. After port.start(), because callbacks begin here."""
        if self._link is None:
            self._link = self._port.connect(self._address)

    @property
    def up(self) -> bool:
        return self._up

    def owns(self, link: Link) -> bool:
        return link is self._link

    def on_up(self, link: Link) -> bool:
        if link is not self._link:
            return False
        self._up = True
        link.send(self._hello())
        return True

    def on_down(self, link: Link) -> bool:
        if link is not self._link:
            return False
        self._up = False
        return True

    def send(self, message: Message) -> bool:
        return self._up and self._link is not None and self._link.send(message)

    def close(self) -> None:
        self._up = False
        if self._link is not None:
            self._link.close()
