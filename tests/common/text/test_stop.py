import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from common.domain.errors import InvalidRequest
from common.text.stop import StopMatcher


def fed(stops: list[str], pieces: list[str], *, include: bool = False) -> tuple[str, str | None]:
    """All text that a stream of pieces gives, and what stopped it."""
    matcher = StopMatcher(stops, include_stop=include)
    sent = []
    for piece in pieces:
        text, matched = matcher.push(piece)
        sent.append(text)
        if matched is not None:
            return "".join(sent), matched
    return "".join([*sent, matcher.flush()]), None


def first_stop(stops: list[str], text: str) -> tuple[int, int, str] | None:
    """(end, start, stop) by looking at the whole text: the first complete, the longest of those."""
    found = [(text.find(s) + len(s), text.find(s), s) for s in stops if s in text]
    return min(found, default=None)


def test_a_stop_across_pieces_is_cut_before_and_only_its_beginning_is_held() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("some E") == ("some ", None)
    assert matcher.push("N") == ("", None)
    assert matcher.push("D and more") == ("", "END")
    assert matcher.push("ignored") == ("", "END")
    assert matcher.flush() == ""


def test_a_false_beginning_is_released_as_soon_as_it_is_one() -> None:
    matcher = StopMatcher(["aab"])
    assert matcher.push("xa") == ("x", None)
    assert matcher.push("a") == ("", None)
    assert matcher.push("a") == ("a", None), "aa can still begin the stop, the third cannot"
    assert matcher.push("c") == ("aac", None)
    assert matcher.flush() == ""


def test_the_end_of_the_stream_releases_what_was_held() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("the EN") == ("the ", None)
    assert matcher.flush() == "EN"


def test_the_stop_string_can_be_kept() -> None:
    assert fed(["\n\n"], ["a\n", "\nb"], include=True) == ("a\n\n", "\n\n")


def test_the_first_complete_stop_wins_and_then_the_longest() -> None:
    assert fed(["abcd", "bc"], ["abcd"]) == ("a", "bc")
    assert fed(["c", "bc"], ["abcd"]) == ("a", "bc")


def test_without_stops_everything_passes_at_once() -> None:
    assert StopMatcher([]).push("text") == ("text", None)


def test_an_empty_stop_is_the_clients_error() -> None:
    with pytest.raises(InvalidRequest) as caught:
        StopMatcher(["a", ""])
    assert caught.value.param == "stop"


@given(
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4),
    pieces=st.lists(st.text(alphabet="abc", max_size=6), max_size=10),
    include=st.booleans(),
)
@example(stops=["aabaab"], pieces=["aabaaabaab"], include=False)
def test_the_result_does_not_depend_on_the_pieces(
    stops: list[str], pieces: list[str], include: bool
) -> None:
    text = "".join(pieces)
    found = first_stop(stops, text)
    if found is None:
        expected = (text, None)
    else:
        end, start, stop = found
        expected = (text[: end if include else start], stop)
    assert fed(stops, pieces, include=include) == expected
    assert fed(stops, list(text), include=include) == expected


@given(
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4),
    text=st.text(alphabet="abc", max_size=30),
)
def test_nothing_is_held_that_cannot_begin_a_stop(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    sent, matched = matcher.push(text)
    if matched is None:
        held = text[len(sent) :]
        assert held == "" or any(s.startswith(held) for s in stops)
        longer = [text[i:] for i in range(len(sent))]
        assert not any(s.startswith(tail) for s in stops for tail in longer)
