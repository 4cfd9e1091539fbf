from pathlib import Path

import pytest

from deploy.local.errors import DeployError
from deploy.local.preflight import GIB, MIB, check_disk, check_memory, check_port, check_torch


def test_a_busy_port_says_how_to_take_another() -> None:
    check_port(8000, free=True)
    with pytest.raises(DeployError, match=r"port 8000 .*\n.*make up PORT=8001"):
        check_port(8000, free=False)


def test_a_worker_that_needs_torch_says_what_installs_it_and_what_does_without() -> None:
    check_torch(has_torch=True)
    with pytest.raises(DeployError, match=r"(?s)make setup.*mock-4p4d"):
        check_torch(has_torch=False)


def test_too_little_memory_says_how_much_is_missing_and_what_helps() -> None:
    check_memory(2 * GIB, 2 * GIB)
    with pytest.raises(DeployError, match=r"(?s)2\.0 GiB.*1\.5 GiB.*TWINFLEET_KV_POOL_BYTES"):
        check_memory(2 * GIB, GIB * 3 // 2)


def test_a_full_disk_names_the_folder_and_the_way_out() -> None:
    check_disk(Path("/c"), 5 * MIB, 5 * MIB, "the model")
    with pytest.raises(DeployError, match=r"the model needs 6 MiB in /c, and 5 MiB.*CACHE"):
        check_disk(Path("/c"), 6 * MIB, 5 * MIB, "the model")
