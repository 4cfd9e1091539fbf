from common.engine.bench.floors import Floors, Work
from common.engine.bench.row import Row
from common.engine.bench.timing import Timing


def test_a_row_carries_what_it_reached() -> None:
    row = Row("decode", "batch 1", 2.0, "ms", Timing(2.0, 4.0, 7), Work(50.0, 8.0), {"x": 1.0})
    assert row.as_json(Floors(100.0, 8.0)) == {
        "part": "decode",
        "case": "batch 1",
        "value": 2.0,
        "unit": "ms",
        "seconds": 2.0,
        "cpu_seconds": 4.0,
        "repeats": 7,
        "bytes": 50.0,
        "flops": 8.0,
        "reached": {"bandwidth": 0.25, "flops": 0.5},
        "details": {"x": 1.0},
    }
