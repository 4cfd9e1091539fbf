"""What a comparison or a search found, as tables. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from loadtest.comparison import HEADLINE, Against, Checked, Comparison
from loadtest.knee import Knee
from loadtest.measurement import SEARCH, SERVER
from loadtest.numbers import MISSING, change, number, share
from loadtest.ratios import RatioResult, Shown
from loadtest.scenario import Claim
from loadtest.search import Goodput
from loadtest.summary import Summary
from loadtest.tables import Cell, Columns, Kind, Table, name

_WORDS = {
    "ttft_ms": "TTFT, ms",
    "tpot_ms": "TPOT, ms",
    "e2e_ms": "E2E, ms",
    "lag_ms": "lag, ms",
    "itl_chunk_ms": "ITL by chunk, ms",
    "itl_token_ms": "ITL by token, ms",
    "request_rate": "finished requests/s",
    "output_tokens_s": "output tokens/s",
    "steady_tokens_s": "steady output tokens/s",
    "total_tokens_s": "all tokens/s",
    "attainment": "attainment",
    "goodput": "goodput, 1/s",
    "knee": "knee, 1/s",
    "misses": "misses",
    "cached_share": "share of the prompt cached",
    "acceptance_length": "acceptance length",
}
_SHARES = ("attainment", "cached_share")
_OF_SHOWN: dict[Shown, Kind] = {
    Shown.BETTER: "good",
    Shown.WORSE: "bad",
    Shown.DIFFERENT: "",
    Shown.NO_DIFFERENCE: "",
}


def words(figure: str) -> str:
    """Of a figure without its load: `ttft_ms.p50` is TTFT P50, ms."""
    measure, _dot, stat = figure.partition(".")
    text = _WORDS.get(measure, measure.replace("_", " "))
    if not stat:
        return text
    head, comma, unit = text.partition(",")
    return f"{head} {stat.replace('p', 'P')}{comma}{unit}"


def ratio_tables(summary: Summary) -> list[Table]:
    """Of each other side: what counts, then all the rest."""
    comparison = summary.comparison
    if comparison is None:
        return []
    tables = [claims(comparison)] if comparison.claims else []
    for other in comparison.against:
        chosen = sorted(filter(_is_headline, other.figures), key=_place)
        rest = [figure for figure in other.figures if not _is_headline(figure)]
        title = f"{comparison.candidate} against {other.side}"
        tables.append(_ratios(comparison, other, chosen, title))
        everything = _ratios(comparison, other, rest, f"{title}: all other figures")
        tables.append(replace(everything, folded=True))
    return [table for table in tables if table.rows]


def _place(figure: str) -> tuple[str, int]:
    load, _dot, rest = figure.partition(".")
    return load, HEADLINE.index(rest)


def _is_headline(figure: str) -> bool:
    load, _dot, rest = figure.partition(".")
    return load != SERVER and rest in HEADLINE


def _ratios(comparison: Comparison, other: Against, chosen: list[str], title: str) -> Table:
    loads = {figure.partition(".")[0] for figure in other.figures}
    one_load = len(loads - {SERVER, SEARCH}) == 1
    return Table(
        title=title,
        columns=(
            Columns("", ("figure", comparison.candidate, other.side)),
            Columns("ratio", ("mean", "95% interval", "pairs", "shown")),
        ),
        rows=tuple(
            (
                name(_told_name(figure, one_load=one_load)),
                *(
                    Cell(_mean_of(comparison, side, figure))
                    for side in (comparison.candidate, other.side)
                ),
                *_ratio_cells(other.figures[figure]),
            )
            for figure in chosen
        ),
        notes=(
            f"Ratios are {comparison.candidate} over {other.side} in pairs of the same seed: "
            "geometric mean, and the interval that Student's t gives for it. "
            "A difference is shown where the interval leaves out 1.",
            *_agreement(other),
        ),
    )


def _agreement(other: Against) -> Iterator[str]:
    if other.answers is not None:
        same, compared = other.answers.same, other.answers.compared
        yield f"{same:,} of {compared:,} answers to the same conversation are the same."


def _told_name(figure: str, *, one_load: bool) -> str:
    load, _dot, rest = figure.partition(".")
    if load == SERVER:
        return f"server: {rest}"
    if load == SEARCH:
        return f"{rest} found by the search, 1/s"
    return words(rest) if one_load else f"{load}: {words(rest)}"


def _mean_of(comparison: Comparison, side: str, figure: str) -> str:
    mean = comparison.means.get(side, {}).get(figure)
    if mean is None:
        return MISSING
    return share(mean) if figure.endswith(_SHARES) else number(mean)


def _ratio_cells(ratio: RatioResult) -> tuple[Cell, ...]:
    pairs = f"{ratio.pairs}" + (f" of {ratio.pairs + ratio.left_out}" if ratio.left_out else "")
    return (
        Cell(change(ratio.mean)),
        Cell(interval(ratio)),
        Cell(pairs),
        Cell(ratio.shown.value, _OF_SHOWN[ratio.shown]),
    )


def interval(ratio: RatioResult) -> str:
    if ratio.interval is None:
        return MISSING
    low, high = ratio.interval
    return f"{number(low)} – {number(high)}"


def claims(comparison: Comparison) -> Table:
    return Table(
        title="Claims",
        columns=(
            Columns("", ("claim", "figure", "ratio of", "asked")),
            Columns("measured", ("mean", "95% interval", "")),
        ),
        rows=tuple(_claim(checked) for checked in comparison.claims),
        notes=(
            "A claim is met where the mean ratio keeps its bound, and firmly where the whole "
            "interval does.",
        ),
    )


def _claim(checked: Checked) -> tuple[Cell, ...]:
    claim = checked.claim
    verdict = "missed"
    if checked.holds:
        verdict = "met firmly" if checked.holds_firmly else "met"
    return (
        name(claim.text),
        name(claim.measure),
        name(f"{claim.side} / {claim.against}" if claim.against else claim.side),
        Cell(_bound(claim)),
        Cell(change(checked.ratio.mean) if claim.against else number(checked.ratio.mean)),
        Cell(interval(checked.ratio)),
        Cell(verdict, "good" if checked.holds else "bad"),
    )


def _bound(claim: Claim) -> str:
    times = "×" if claim.against else ""
    if claim.at_least is not None:
        return f"≥ {number(claim.at_least)}{times}"
    return f"≤ {number(claim.at_most)}{times}"


def search_table(search: Goodput | Knee) -> Table:
    match search:
        case Goodput():
            return _goodput(search)
        case Knee():
            return _knee(search)


def _goodput(search: Goodput) -> Table:
    return Table(
        title=f"Rates tried: at least {search.asked:.0%} must meet all targets",
        columns=(Columns("", ("rate", "met", "judged", "attainment", "95% interval", "")),),
        rows=tuple(
            (
                name(f"{point.rate:.4g}"),
                Cell(f"{point.met:,}"),
                Cell(f"{point.judged:,}"),
                Cell(share(point.attainment)),
                Cell(f"{share(point.interval[0])} – {share(point.interval[1])}"),
                Cell("enough", "good")
                if point.attainment >= search.asked
                else Cell("too few", "bad"),
            )
            for point in search.points
        ),
        notes=("Where the interval contains what is asked, another run may decide otherwise.",),
    )


def _knee(search: Knee) -> Table:
    return Table(
        title="Rates of the sweep",
        columns=(
            Columns("", ("rate", "served of offered")),
            Columns("TTFT, ms", ("P50", "P90")),
            Columns("", ("output tokens/s", "keeps up")),
        ),
        rows=tuple(
            (
                name(f"{point.rate:.4g}"),
                Cell(share(point.served_share)),
                Cell(number(point.ttft_p50_ms)),
                Cell(number(point.ttft_p90_ms)),
                Cell(number(point.output_tokens_s)),
                Cell(trouble, "bad") if trouble else Cell("yes", "good"),
            )
            for point, trouble in zip(search.points, search.troubles, strict=True)
        ),
    )
