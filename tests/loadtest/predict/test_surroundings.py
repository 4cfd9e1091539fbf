import pytest

from loadtest.predict.surroundings import Surroundings


def test_a_copy_takes_its_bytes_and_what_every_copy_takes() -> None:
    around = Surroundings(transfer_gb_s=2.0, transfer_ms=3.0)
    assert around.copy_s(0) == pytest.approx(0.003)
    assert around.copy_s(4_000_000) == pytest.approx(0.005)
