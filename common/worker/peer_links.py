"""Links to single lives of peers, opened when first needed, shared by all attempts that need
them."""

from collections.abc import Callable

from common.domain.ids import ProcessId
from common.domain.peer import PeerRef
from common.wire.messages import Message
from common.wire.port import Link, Port


class PeerLinks:
    """`on_lost` is called once when the peer behind a link has died."""

    def __init__(self, port: Port, on_lost: Callable[[ProcessId], None]) -> None:
        self._port = port
        self._on_lost = on_lost
        self._links: dict[ProcessId, Link] = {}
        self._addresses: dict[ProcessId, str] = {}

    def to(self, peer: PeerRef) -> Link:
        link = self._links.get(peer.id)
        if link is None:
            link = self._links[peer.id] = self._port.connect(peer.address, peer.id)
            self._addresses[peer.id] = peer.address
        return link

    def peers(self) -> list[ProcessId]:
        return list(self._links)

    def addresses(self) -> list[str]:
        return list(self._addresses.values())

    def send(self, peer: ProcessId, message: Message) -> bool:
        link = self._links.get(peer)
        return link is not None and link.send(message)

    def on_down(self, link: Link) -> bool:
        """True: the link was one of these."""
        if link.peer is None or self._links.get(link.peer) is not link:
            return False
        del self._links[link.peer]
        del self._addresses[link.peer]
        self._on_lost(link.peer)
        return True
