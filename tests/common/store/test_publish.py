"""Where an arena can be read."""

from pathlib import Path

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.store.frames import FrameReader
from common.store.publish import data_address, publish
from common.store.shm import ShmReader
from tests.support.arenas import SLOT_BYTES, SLOTS, block_bytes, filled_arena, targets_for

ME = ProcessId(ProcessName("decode-0"), Incarnation(2**62 + 1))


def test_one_publication_serves_both_kinds_of_readers(tmp_path: Path) -> None:
    arena = filled_arena()
    publication = publish(arena, ME, "here", tmp_path, "tcp://127.0.0.1:*")
    ref = publication.ref
    assert (ref.holder, ref.epoch, ref.host) == (ME.name, ME.incarnation, "here")
    assert (ref.slots, ref.slot_bytes) == (SLOTS, SLOT_BYTES)
    assert not ref.data_address.endswith("*")
    for reader in (ShmReader(), FrameReader()):
        (target,) = targets_for(1, SLOT_BYTES)
        assert reader.read(ref, [arena.describe(3, SLOT_BYTES)], SLOT_BYTES, [target]) == [True]
        assert target == block_bytes(3, SLOT_BYTES)
        reader.close()
    publication.close()
    assert list(tmp_path.iterdir()) == []


def test_without_an_address_nobody_listens_for_frames(tmp_path: Path) -> None:
    publication = publish(filled_arena(), ME, "", tmp_path, "")
    assert publication.ref.data_address == ""
    publication.close()


def test_a_data_socket_that_cannot_be_bound_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot bind"):
        publish(filled_arena(), ME, "", tmp_path, "tcp://no-such-interface:1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("bind", "host", "expected"),
    [
        ("tcp://127.0.0.1:5555", "decode-0", "tcp://127.0.0.1:*"),
        ("tcp://127.0.0.1:5555", "", "tcp://127.0.0.1:*"),
        ("ipc:///run/decode-0", "", ""),
        ("ipc:///run/decode-0", "west", "ipc:///run/decode-0.data"),
    ],
)
def test_frames_are_served_where_somebody_may_ask(bind: str, host: str, expected: str) -> None:
    assert data_address(bind, host, Path("/run"), "decode-0") == expected
