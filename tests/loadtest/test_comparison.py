import pytest

from loadtest.comparison import Agreement, Taken, compare, taken
from loadtest.measurement import Measurement
from loadtest.metrics import Targets
from loadtest.ratios import Shown
from loadtest.record import Outcome, Record
from loadtest.scenario import Claim

TTFT = "main.ttft_ms.p50"


def valued(**sides: float) -> dict[str, Taken]:
    return {side: Taken({TTFT: value}, {}) for side, value in sides.items()}


def one(name: str, new: float, old: float) -> list[dict[str, Taken]]:
    pair = {"old": Taken({name: old}, {}), "new": Taken({name: new}, {})}
    return [pair, pair, pair]


def answered(new: dict[str, str], old: dict[str, str]) -> dict[str, Taken]:
    """Digests of answers by those of conversations."""
    return {
        side: Taken({}, {(asked, 8): text for asked, text in answers.items()})
        for side, answers in (("old", old), ("new", new))
    }


def claim(**bounds: float) -> Claim:
    return Claim(text="it is faster", measure=TTFT, side="new", against="old", **bounds)


def test_the_candidate_is_held_against_every_other_side() -> None:
    pairs = [valued(old=2.0, rival=4.0, new=1.0)] * 2
    comparison = compare(pairs, "new")
    assert comparison.sides == ("new", "old", "rival")
    assert comparison.pairs == 2
    means = {other.side: other.figures[TTFT].mean for other in comparison.against}
    assert means == {"old": pytest.approx(0.5), "rival": pytest.approx(0.25)}


def test_ratios_are_of_the_values_of_the_same_pair() -> None:
    pairs = [valued(old=1.0, new=2.0), valued(old=10.0, new=20.0), valued(old=100.0, new=200.0)]
    figure = compare(pairs, "new").against[0].figures[TTFT]
    assert figure.ratios == (2.0, 2.0, 2.0)
    assert figure.shown is Shown.WORSE


def test_a_side_or_a_figure_that_is_missing_in_a_pair_leaves_the_pair_out() -> None:
    pairs = [valued(old=1.0, new=2.0), valued(new=2.0), valued(old=1.0) | {"new": Taken({}, {})}]
    figure = compare(pairs, "new").against[0].figures[TTFT]
    assert figure.ratios == (2.0,)
    assert figure.left_out == 2


def test_a_candidate_that_was_never_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="never measured"):
        compare([valued(old=1.0)], "new")


@pytest.mark.parametrize(
    ("name", "new", "old", "code"),
    [
        ("main.ttft_ms.p50", 1.2, 1.0, 1),
        ("main.ttft_ms.p50", 1.04, 1.0, 0),
        ("main.ttft_ms.p50", 0.8, 1.0, 0),
        ("main.ttft_ms.p90", 1.2, 1.0, 1),
        ("main.tpot_ms.p50", 1.2, 1.0, 1),
        ("main.e2e_ms.p50", 1.2, 1.0, 1),
        ("main.output_tokens_s", 0.8, 1.0, 1),
        ("main.output_tokens_s", 1.2, 1.0, 0),
        ("all.attainment", 0.5, 1.0, 1),
        ("all.attainment", 0.0, 1.0, 1),
        ("search.goodput", 0.5, 1.0, 1),
        ("main.misses", 20.0, 10.0, 1),
        ("main.misses", 3.0, 0.0, 1),
        ("main.misses", 0.0, 0.0, 0),
        ("main.ttft_ms.max", 9.0, 1.0, 0),
        ("main.duration_s", 9.0, 1.0, 0),
        ("server.misses", 9.0, 1.0, 0),
    ],
)
def test_only_a_headline_figure_that_is_worse_fails(
    name: str, new: float, old: float, code: int
) -> None:
    comparison = compare(one(name, new, old), "new")
    assert comparison.exit_code(0.05) == code
    assert comparison.exit_code(None) == 0
    assert [line.split(":")[0] for line in comparison.failures(0.05)] == [name] * code


def test_what_is_worse_within_chance_does_not_fail() -> None:
    pairs = [valued(old=1.0, new=value) for value in (0.7, 2.5, 1.1)]
    assert compare(pairs, "new").exit_code(0.05) == 0


def test_being_worse_than_any_other_side_fails() -> None:
    pairs = [valued(old=2.0, rival=1.0, new=1.5)] * 3
    assert compare(pairs, "new").failures(0.05) == (f"{TTFT}: new over rival: 1.5 [1.5, 1.5]",)


def test_a_claim_holds_by_the_geometric_mean_and_firmly_by_the_interval() -> None:
    steady = compare([valued(old=1.0, new=0.5)] * 3, "new", [claim(at_most=0.6)])
    assert [(c.holds, c.holds_firmly) for c in steady.claims] == [(True, True)]
    wide = [valued(old=1.0, new=value) for value in (0.3, 0.5, 0.8)]
    noisy = compare(wide, "new", [claim(at_most=0.6)])
    assert [(c.holds, c.holds_firmly) for c in noisy.claims] == [(True, False)]
    single = compare(wide[:1], "new", [claim(at_most=0.6)])
    assert [(c.holds, c.holds_firmly) for c in single.claims] == [(True, None)]
    assert {c.exit_code(0.05) for c in (steady, noisy, single)} == {0}


def test_a_missed_claim_fails_whatever_is_allowed() -> None:
    comparison = compare([valued(old=1.0, new=0.9)] * 3, "new", [claim(at_most=0.6)])
    assert comparison.exit_code(None) == 1
    (line,) = comparison.failures(None)
    assert line == f"claim missed: it is faster ({TTFT}, new over old: 0.9 [0.9, 0.9])"


def test_a_claim_about_what_was_not_measured_is_missed() -> None:
    (checked,) = compare([valued(new=0.9)], "new", [claim(at_least=0.1)]).claims
    assert not checked.holds
    assert checked.holds_firmly is None


def test_a_claim_may_be_about_sides_that_are_not_the_candidate() -> None:
    pairs = [valued(old=1.0, rival=2.0, new=1.0)] * 2
    other = Claim(text="", measure=TTFT, side="rival", against="old", at_least=1.9)
    (checked,) = compare(pairs, "new", [other]).claims
    assert checked.ratio.mean == pytest.approx(2.0)
    assert checked.holds


@pytest.mark.parametrize(
    ("new", "old", "agreement"),
    [
        ({"q": "x"}, {"q": "x"}, Agreement(1, 1)),
        ({"q": "x"}, {"q": "y"}, Agreement(0, 1)),
        ({"q": "x", "r": "z"}, {"q": "x", "r": "y"}, Agreement(1, 2)),
        ({"q": "x", "other": "z"}, {"q": "x", "r": "y"}, Agreement(1, 1)),
        ({"q": "x"}, {"r": "x"}, None),
        ({}, {}, None),
    ],
)
def test_answers_are_compared_where_both_were_asked_the_same(
    new: dict[str, str], old: dict[str, str], agreement: Agreement | None
) -> None:
    assert compare([answered(new, old)], "new").against[0].answers == agreement


def test_the_same_conversation_with_another_limit_is_another_question() -> None:
    pair = {"old": Taken({}, {("q", 8): "x"}), "new": Taken({}, {("q", 9): "xy"})}
    assert compare([pair], "new").against[0].answers is None


def test_answers_of_all_pairs_count() -> None:
    pairs = [answered({"q": "x"}, {"q": "x"}), answered({"q": "x", "r": "x"}, {"q": "y", "r": "x"})]
    answers = compare(pairs, "new").against[0].answers
    assert answers == Agreement(2, 3)
    assert answers.share == pytest.approx(2 / 3)


def test_of_a_measurement_the_figures_and_the_finished_answers_are_taken() -> None:
    def record(session: int, outcome: Outcome, digest: str) -> Record:
        return Record(
            "main", session, 0, scheduled_s=0.0, ended_s=1.0, outcome=outcome,
            chunks_s=[0.25], output_tokens=1, text_digest=digest, asked_digest=f"q{session}",
            asked_tokens=8,
        )  # fmt: skip

    records = [
        record(0, Outcome.FINISHED, "abc"),
        record(1, Outcome.CUT, "def"),
        record(2, Outcome.FINISHED, ""),
    ]
    measurement = Measurement("old", 1, Targets(), records)
    found = taken(measurement)
    assert found.answers == {("q0", 8): "abc"}
    assert found.values == measurement.values()
    assert found.values["main.misses"] == 1
