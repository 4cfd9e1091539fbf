from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.pairs import Comparison, compare

RATE, TIME = Case("streams", 4), Case("gap", 100)


def test_above_one_is_ours_whether_more_or_less_is_better() -> None:
    assert Comparison("p", RATE, (30.0,), (10.0,)).ratio == 3.0
    assert Comparison("p", TIME, (30.0,), (10.0,)).ratio == 1 / 3


def test_the_ratio_is_the_median_of_the_pairs_not_of_the_sides() -> None:
    assert Comparison("p", RATE, (10.0, 20.0, 90.0), (10.0, 5.0, 45.0)).ratio == 2.0


def test_pairs_are_interleaved_take_turns_and_the_first_does_not_count() -> None:
    calls: list[tuple[str, int]] = []

    def side(name: str) -> float:
        return 4.0 if name == "ours" else 2.0

    def ours(case: Case, seed: int) -> float:
        calls.append(("ours", seed))
        return side("ours")

    def theirs(case: Case, seed: int) -> float:
        calls.append(("theirs", seed))
        return side("theirs")

    (one,) = compare("p", [(RATE, [7, 8, 9])], ours, theirs)
    assert calls == [
        ("ours", 7),
        ("theirs", 7),
        ("theirs", 8),
        ("ours", 8),
        ("ours", 9),
        ("theirs", 9),
    ]
    assert one == Comparison("p", RATE, (4.0, 4.0), (2.0, 2.0))


def test_what_a_peer_cannot_do_has_no_ratio() -> None:
    (one,) = compare("p", [(TIME, [0, 1])], lambda case, seed: 1.0, lambda case, seed: None)
    assert one.ours == ()
    assert one.ratio is None
