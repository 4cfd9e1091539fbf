import pytest

from common.engine.bench.bandwidth import read_bandwidth


def test_bytes_of_the_array_in_the_best_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 4.0, 10.0, 12.0, *(20.0 + 4.0 * n for n in range(8))])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    assert read_bandwidth(2, array_bytes=1 << 12) == (1 << 12) / 2.0


def test_a_machine_reads_more_than_a_floppy_drive() -> None:
    assert read_bandwidth(1, array_bytes=1 << 22) > 1e8
