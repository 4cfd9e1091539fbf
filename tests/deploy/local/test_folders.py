import os
import socket
import stat
from pathlib import Path

import pytest

from deploy.local.errors import DeployError
from deploy.local.folders import NAME_RESERVE, Folders, short_socket_folder

TEMPORARY = Path("/tmp")


def test_a_short_path_is_used_as_it_is() -> None:
    assert short_socket_folder(Path("/a/.run/sockets"), TEMPORARY, 5) == Path("/a/.run/sockets")


def test_a_long_path_is_replaced_by_a_short_one_of_its_own() -> None:
    deep = Path("/") / ("d" * 60) / "sockets"
    deeper = Path("/") / ("d" * 61) / "sockets"
    short = short_socket_folder(deep, TEMPORARY, 5)
    assert short.parent == TEMPORARY
    assert len(str(short)) + 1 + NAME_RESERVE <= 107
    assert short == short_socket_folder(deep, TEMPORARY, 5)
    assert short != short_socket_folder(deeper, TEMPORARY, 5)
    assert short != short_socket_folder(deep, TEMPORARY, 6)


def test_a_socket_with_the_longest_name_can_be_bound(tmp_path: Path) -> None:
    folders = Folders(tmp_path / ("deep" * 20))
    folders.create()
    path = folders.sockets / ("s" * NAME_RESERVE)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    folders.remove_sockets()
    assert not folders.sockets.exists()


def test_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "run")
    folders.create()
    for folder in (folders.root, folders.logs, folders.sockets):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folders.remove_sockets()


def test_a_link_in_place_of_the_socket_folder_is_refused(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.sockets.parent.mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    folders.sockets.symlink_to(tmp_path / "elsewhere")
    try:
        with pytest.raises(DeployError, match="belongs to somebody else"):
            folders.create()
    finally:
        folders.sockets.unlink()


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeployError, match=r"cannot use .*file"):
        Folders(tmp_path / "file").create()


def test_only_sockets_are_removed(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "run")
    folders.create()
    kept = folders.sockets / "notes.txt"
    kept.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folders.sockets / "decode-0"))
    folders.remove_sockets()
    assert os.listdir(folders.sockets) == ["notes.txt"]
    kept.unlink()
    folders.remove_sockets()
    assert not folders.sockets.exists()


def test_removing_sockets_twice_is_fine(tmp_path: Path) -> None:
    Folders(tmp_path / "never-made").remove_sockets()
