from pathlib import Path

import pytest

from deploy.local.errors import DeployError
from deploy.local.preflight import GIB, MIB, check_disk, check_engine, check_memory, check_port
from deploy.local.topology import parse_topology


def test_a_busy_port_says_how_to_take_another() -> None:
    check_port(8000, free=True)
    with pytest.raises(DeployError, match=r"port 8000 .*\n.*make up PORT=8001"):
        check_port(8000, free=False)


def test_a_real_model_needs_torch_and_a_mock_does_not() -> None:
    real = parse_topology('name = "x"', "x.toml")
    mock = parse_topology('name = "x"\nengine = "mock"', "x.toml")
    check_engine(real, has_torch=True)
    check_engine(mock, has_torch=False)
    with pytest.raises(DeployError, match="make setup"):
        check_engine(real, has_torch=False)


def test_too_little_memory_says_how_much_is_missing_and_what_helps() -> None:
    check_memory(2 * GIB, 2 * GIB)
    with pytest.raises(DeployError, match=r"(?s)2\.0 GiB.*1\.5 GiB.*TWINFLEET_KV_POOL_BYTES"):
        check_memory(2 * GIB, GIB * 3 // 2)


def test_a_full_disk_names_the_folder_and_the_way_out() -> None:
    check_disk(Path("/c"), 5 * MIB, 5 * MIB, "the model")
    with pytest.raises(DeployError, match=r"the model needs 6 MiB in /c, and 5 MiB.*CACHE"):
        check_disk(Path("/c"), 6 * MIB, 5 * MIB, "the model")
