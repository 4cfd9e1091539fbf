from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from common.checkpoint.checked_file import checked_file, read_checked
from common.checkpoint.safetensors_file import SafetensorsFile

CODES = np.random.default_rng(1).integers(0, 256, 640, dtype=np.uint8)
SCALES = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float32)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with checked_file(tmp_path / "x.safetensors", 1000) as file:
        file.add("codes", CODES)
        file.metadata["note"] = 'says "crc32c":"00000000"'
        file.add("scales", SCALES.T)
    return tmp_path / "x.safetensors"


def sound(place: Path) -> SafetensorsFile:
    file = read_checked(place)
    assert file is not None
    return file


def test_tensors_and_metadata_come_back_as_views_of_the_file(place: Path) -> None:
    file = sound(place)
    assert list(file.entries) == ["codes", "scales"]
    assert file.metadata["note"] == 'says "crc32c":"00000000"'
    np.testing.assert_array_equal(file.raw("codes"), CODES)
    np.testing.assert_array_equal(file.tensor("scales"), SCALES.T)
    for array in (file.raw("codes"), file.tensor("scales")):
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        assert not array.flags.owndata


def test_it_is_plain_safetensors(place: Path) -> None:
    loaded = load_file(place)
    np.testing.assert_array_equal(loaded["codes"], CODES)
    np.testing.assert_array_equal(loaded["scales"], SCALES.T)


def test_a_flipped_bit_is_found_wherever_it_is(place: Path) -> None:
    whole = place.read_bytes()
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        place.write_bytes(damaged)
        assert read_checked(place) is None, at
    place.write_bytes(whole)
    assert read_checked(place) is not None


@pytest.mark.parametrize("size", [0, 7, 8, 100, 1000, 1100, -1])
def test_a_file_cut_short_or_made_longer_is_found(size: int, place: Path) -> None:
    whole = place.read_bytes()
    place.write_bytes(whole + b"x" if size < 0 else whole[:size])
    assert read_checked(place) is None


def test_a_file_that_is_not_there_is_not_read(tmp_path: Path) -> None:
    assert read_checked(tmp_path / "absent") is None


def test_nothing_is_left_when_the_writer_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not fit the"), checked_file(tmp_path / "x", 56) as f:
        f.add("codes", CODES)
    with pytest.raises(KeyError), checked_file(tmp_path / "x", 1000) as file:
        file.add("codes", CODES.astype(np.int64))
    assert list(tmp_path.iterdir()) == []
