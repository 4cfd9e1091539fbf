"""An arena across real processes: handed over, read, never written, never mistaken."""

import gc
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from common.domain.block import ArenaRef
from common.domain.errors import ProtocolError
from common.store.arena import Arena
from common.store.share import ArenaServer, open_shared
from tests.support.arenas import (
    ROOT,
    SLOT_BYTES,
    SLOTS,
    HolderProcess,
    block_bytes,
    filled_arena,
)
from tests.support.processes import until

INTRUDER = """
import fcntl, mmap, os, socket, sys
path, size = sys.argv[1], int(sys.argv[2])
with socket.socket(socket.AF_UNIX) as s:
    s.connect(path)
    _, (fd,), _, _ = socket.recv_fds(s, 64, 1)
again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
attempts = {
    "map": lambda: mmap.mmap(fd, size),
    "reopen and map": lambda: mmap.mmap(again, size),
    "write": lambda: os.pwrite(again, b"x", 0),
    "shrink": lambda: os.ftruncate(again, 4096),
    "unseal": lambda: fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0),
}
for name, attempt in attempts.items():
    try:
        attempt()
        print("allowed:", name)
    except OSError:
        pass
print(mmap.mmap(fd, size, prot=mmap.PROT_READ)[-4:].hex())
"""


@pytest.fixture
def arena() -> Arena:
    return filled_arena()


@pytest.fixture
def ref(arena: Arena, tmp_path: Path) -> Iterator[ArenaRef]:
    server = ArenaServer(arena, 7, f"{tmp_path}/arena")
    yield ArenaRef("holder-0", 7, "here", f"{tmp_path}/arena", "", SLOT_BYTES, SLOTS)
    server.close()


def test_another_process_reads_what_this_one_writes(tmp_path: Path) -> None:
    with HolderProcess(tmp_path) as holder:
        view = open_shared(holder.ref)
        assert view.view(5) == block_bytes(5, SLOT_BYTES)
        holder.refill(5, 99)
        assert view.view(5) == block_bytes(99, SLOT_BYTES)
        assert view.generation(5) == holder.descriptors[5].generation + 1


def test_what_is_mapped_outlives_its_owner(tmp_path: Path) -> None:
    with HolderProcess(tmp_path) as holder:
        view = open_shared(holder.ref)
        holder.kill()
        assert view.view(2) == block_bytes(2, SLOT_BYTES)


def test_a_peer_can_do_nothing_but_read(arena: Arena, ref: ArenaRef) -> None:
    size = os.fstat(arena.fd).st_size
    child = subprocess.run(
        [sys.executable, "-c", INTRUDER, ref.socket_path, str(size)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert child.stdout == bytes(arena.memory[-4:]).hex() + "\n"


def test_another_life_is_refused(ref: ArenaRef) -> None:
    with pytest.raises(ProtocolError, match="another life"):
        open_shared(replace(ref, epoch=8))


def test_another_geometry_is_refused(ref: ArenaRef) -> None:
    with pytest.raises(ProtocolError, match="another life"):
        open_shared(replace(ref, slot_bytes=4096))


def test_nobody_there_is_an_os_error(ref: ArenaRef) -> None:
    with pytest.raises(OSError, match="No such file"):
        open_shared(replace(ref, socket_path=ref.socket_path + "-not"))


@pytest.mark.parametrize("greeting", [b"", b"TFA1", b"hello" * 20])
def test_a_stranger_behind_the_path_is_a_protocol_error(
    tmp_path: Path, ref: ArenaRef, greeting: bytes
) -> None:
    path = f"{tmp_path}/stranger"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(ProtocolError, match="greeting"):
            open_shared(replace(ref, socket_path=path))
        thread.join()


def test_the_socket_of_a_dead_predecessor_is_replaced(arena: Arena, tmp_path: Path) -> None:
    path = f"{tmp_path}/arena"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    server = ArenaServer(arena, 9, path)
    ref = ArenaRef("holder-0", 9, "here", path, "", SLOT_BYTES, SLOTS)
    assert open_shared(ref).slots == SLOTS
    server.close()


def test_close_takes_its_own_socket_file_and_not_its_successors(
    arena: Arena, tmp_path: Path
) -> None:
    path = tmp_path / "arena"
    first = ArenaServer(arena, 7, str(path))
    second = ArenaServer(arena, 8, str(path))
    first.close()
    assert path.exists()
    second.close()
    second.close()
    assert not path.exists()


def test_the_socket_is_for_its_user_alone(ref: ArenaRef) -> None:
    assert os.stat(ref.socket_path).st_mode & 0o077 == 0


def test_opening_and_closing_leaves_no_descriptor_behind(ref: ArenaRef) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    open_shared(ref).close()
    gc.collect()
    before = descriptors()
    for _ in range(5):
        open_shared(ref).close()
        with pytest.raises(ProtocolError):
            open_shared(replace(ref, epoch=8))
    # The server's end of the last connection closes in its own time.
    until(lambda: descriptors() <= before)
