import os
from pathlib import Path

from deploy.local.identity import Identity, identify
from deploy.local.lock import RunLock, lock_holder, take_lock


def test_a_lock_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    assert take_lock(tmp_path / "lock") is None
    lock.release()
    again = take_lock(tmp_path / "lock")
    assert again is not None
    again.release()


def test_the_holder_can_be_found(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    assert lock_holder(tmp_path / "lock") == identify(os.getpid())
    lock.release()
    assert lock_holder(tmp_path / "lock") is None


def test_a_lock_nobody_ever_took_is_free(tmp_path: Path) -> None:
    assert lock_holder(tmp_path / "lock") is None


def test_a_lock_passed_on_stays_taken_when_the_first_holder_lets_go(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    heir = RunLock(os.dup(lock.fd))
    lock.release()
    assert take_lock(tmp_path / "lock") is None
    heir.release()


def test_the_holder_named_last_is_found(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    lock.name(Identity(7, 1))
    assert lock_holder(tmp_path / "lock") == Identity(7, 1)
    lock.release()


def test_looking_does_not_take(tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "lock")
    assert lock is not None
    lock.release()
    assert lock_holder(tmp_path / "lock") is None
    after = take_lock(tmp_path / "lock")
    assert after is not None
    after.release()
