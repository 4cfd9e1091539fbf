import hashlib
import os
from pathlib import Path

from common.checkpoint.digest import Digests, weights_digest


def test_a_digest_is_remembered_until_size_or_time_differ(tmp_path: Path) -> None:
    path, digests = tmp_path / "file", Digests(tmp_path / "cache")
    path.write_bytes(b"one")
    os.utime(path, ns=(1000, 1000))
    assert digests.of_file(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"two")
    os.utime(path, ns=(1000, 1000))
    assert digests.of_file(path) == hashlib.sha256(b"one").hexdigest(), "read from the record"
    os.utime(path, ns=(2000, 2000))
    assert digests.of_file(path) == hashlib.sha256(b"two").hexdigest()
    path.write_bytes(b"three")
    os.utime(path, ns=(2000, 2000))
    assert digests.of_file(path) == hashlib.sha256(b"three").hexdigest()


def test_a_damaged_record_is_as_good_as_none(tmp_path: Path) -> None:
    path, digests = tmp_path / "file", Digests(tmp_path / "cache")
    path.write_bytes(b"one")
    expected = digests.of_file(path)
    (record,) = (tmp_path / "cache" / "digests").iterdir()
    for damage in (b"", b"{}", b"[]", b"7", b"[1, 2, 3, 4]"):
        record.write_bytes(damage)
        assert digests.of_file(path) == expected


def test_nothing_is_remembered_without_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert Digests(None).of_file(path) == hashlib.sha256(b"one").hexdigest()
    assert list(tmp_path.iterdir()) == [path]


def test_files_are_told_apart_by_name_and_content_not_by_order_or_place(tmp_path: Path) -> None:
    digests = Digests(None)
    for folder, contents in (("a", "12"), ("b", "12"), ("c", "21")):
        (tmp_path / folder).mkdir()
        for name, content in zip("xy", contents, strict=True):
            (tmp_path / folder / name).write_text(content)
    a, b, c = (digests.of_files([tmp_path / f / "x", tmp_path / f / "y"]) for f in "abc")
    assert a == b != c
    assert digests.of_files([tmp_path / "a" / "y", tmp_path / "a" / "x"]) == a


def test_weights_are_told_apart_by_form_checkpoint_and_arithmetic() -> None:
    made = [("a 1", "c", "x"), ("a 2", "c", "x"), ("a 1", "d", "x"), ("a 1", "c", "y")]
    assert len({weights_digest(*what) for what in made}) == len(made)
