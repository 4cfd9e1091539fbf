"""Making one's arena readable: on this host by its descriptor, from others by frames."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.domain.block import ArenaRef
from common.domain.ids import ProcessId
from common.store.arena import Arena
from common.store.frames import FrameServer
from common.store.share import ArenaServer


@dataclass(frozen=True, slots=True)
class Publication:
    """An arena that peers can read at `ref` until `close`."""

    ref: ArenaRef
    close: Callable[[], None]
    """To be called before the arena is closed."""


Publisher = Callable[[Arena], Publication]


def data_address(bind_address: str, host: str, run_dir: Path, name: str) -> str:
    """Where a process that listens at `bind_address` serves frames; "" where nobody would ask,
    because every process is on this machine."""
    if bind_address.startswith("tcp://"):
        return bind_address.rpartition(":")[0] + ":*"
    return f"ipc://{run_dir}/{name}.data" if host else ""


def publish(
    arena: Arena, me: ProcessId, host: str, run_dir: Path, data_address: str
) -> Publication:
    """`data_address`: where to bind the socket for readers on other hosts, "" for none. Raises
    OSError."""
    socket_path = str(run_dir / f"{me.name}.arena")
    shared = ArenaServer(arena, me.incarnation, socket_path)
    frames: FrameServer | None = None
    if data_address:
        try:
            frames = FrameServer(arena, me.incarnation, data_address)
        except OSError:
            shared.close()
            raise

    def close() -> None:
        shared.close()
        if frames is not None:
            frames.close()

    bound_address = frames.address if frames else ""
    return Publication(
        ArenaRef(
            holder=me.name,
            epoch=me.incarnation,
            host=host,
            socket_path=socket_path,
            data_address=bound_address,
            slot_bytes=arena.slot_bytes,
            slots=arena.slots,
        ),
        close,
    )
