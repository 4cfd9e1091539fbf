import pytest

from common.engine.bench.timing import Repeats, Timing, measure


def test_medians_of_wall_and_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"wall": 0.0, "cpu": 0.0}
    steps = iter([(1.0, 0.5), (9.0, 4.0), (2.0, 1.0)])
    monkeypatch.setattr("time.perf_counter", lambda: now["wall"])
    monkeypatch.setattr("time.process_time", lambda: now["cpu"])

    def call() -> None:
        wall, cpu = next(steps)
        now["wall"] += wall
        now["cpu"] += cpu

    assert measure(call, Repeats(3, 0.0)) == Timing(2.0, 1.0, 3)


def test_what_is_short_is_repeated_for_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def call() -> None:
        now[0] += 0.25

    assert measure(call, Repeats(2, 1.5)).repeats == 6
