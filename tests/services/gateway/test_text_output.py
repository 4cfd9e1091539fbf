"""Ids to text: whole characters, no leak of a stop string, the same however the ids were cut."""

import random
from collections.abc import Iterable, Sequence

import pytest

from common.domain.finish import FinishReason
from common.text.tokenizer import Tokenizer
from services.gateway.mock_text import MOCK_EOS, mock_text
from services.gateway.text_output import ChoiceText, Delta, Finish, TextOptions
from tests.support.gateway import logprobs_of
from tests.support.tiny_tokenizer import tiny_source

STOP = FinishReason.STOP
LENGTH = FinishReason.LENGTH
EOS = frozenset({MOCK_EOS})


@pytest.fixture(scope="module")
def mock() -> Tokenizer:
    return mock_text().tokenizer


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer(tiny_source(3), ())


def run(
    choice: ChoiceText, rows: Iterable[Sequence[int]], finish: FinishReason = LENGTH
) -> list[Delta]:
    rows = list(rows)
    deltas = [
        choice.push(ids, finish if at == len(rows) - 1 else None, [logprobs_of(i) for i in ids])
        for at, ids in enumerate(rows)
    ]
    return [delta for delta in deltas if delta]


def total(deltas: Sequence[Delta]) -> Delta:
    whole = Delta()
    for delta in deltas:
        assert whole.finish is None, "text after the end"
        whole.add(delta)
    return whole


def text_of(deltas: Sequence[Delta]) -> str:
    return "".join(total(deltas).text)


def one_by_one(ids: Iterable[int]) -> list[list[int]]:
    return [[token] for token in ids]


@pytest.mark.parametrize("text", ["é", "한", "𝄞", "aé한𝄞z"])
def test_no_chunk_holds_half_a_character(mock: Tokenizer, text: str) -> None:
    deltas = run(ChoiceText(mock, TextOptions()), one_by_one(text.encode()))
    assert text_of(deltas) == text
    assert all("\ufffd" not in piece for delta in deltas for piece in delta.text)


def test_a_tail_that_is_truly_cut_appears_once(mock: Tokenizer) -> None:
    deltas = run(ChoiceText(mock, TextOptions()), one_by_one("a한".encode()[:-1]))
    assert text_of(deltas) == "a\ufffd"


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_across_token_borders_ends_the_text(mock: Tokenizer, include: bool) -> None:
    options = TextOptions(stops=("END",), include_stop=include)
    choice = ChoiceText(mock, options)
    deltas = run(choice, one_by_one(b"abENxENDcd"))
    assert text_of(deltas) == ("abENxEND" if include else "abENx")
    assert total(deltas).finish == Finish(STOP, "END")
    assert choice.tokens == 8


@pytest.mark.parametrize("seed", range(30))
def test_stop_strings_cut_where_the_whole_text_would_be_cut(bpe: Tokenizer, seed: int) -> None:
    rng = random.Random(seed)
    ids = [rng.randrange(3, 512) for _ in range(40)]
    whole = text_of(run(ChoiceText(bpe, TextOptions()), [ids]))
    at = rng.randrange(len(whole) - 3)
    stop = whole[at : at + rng.randrange(1, 4)]
    outputs = []
    for cut in ([ids], one_by_one(ids), [ids[:7], ids[7:9], ids[9:]]):
        choice = ChoiceText(bpe, TextOptions(stops=(stop,)))
        result = total(run(choice, cut))
        outputs.append(
            ("".join(result.text), result.finish, choice.tokens, [t.token for t in result.logprobs])
        )
    assert outputs[0] == outputs[1] == outputs[2]
    assert outputs[0][0] == whole[: whole.index(stop)]
    assert outputs[0][1] == Finish(STOP, stop)


def test_an_end_token_is_counted_but_is_no_text(mock: Tokenizer) -> None:
    options = TextOptions(eos_ids=EOS, skip_special=False)
    choice = ChoiceText(mock, options)
    result = total(run(choice, one_by_one([*b"ab", MOCK_EOS]), STOP))
    assert "".join(result.text) == "ab"
    assert result.finish == Finish(STOP, None)
    assert choice.tokens == 3
    assert [t.token for t in result.logprobs] == [b"a", b"b"]


def test_a_stop_token_id_is_named_and_is_text_only_on_demand(mock: Tokenizer) -> None:
    for include, expected in ((False, "ab"), (True, "abc")):
        options = TextOptions(stop_ids=frozenset({ord("c")}), include_stop=include)
        result = total(run(ChoiceText(mock, options), one_by_one(b"abc"), STOP))
        assert "".join(result.text) == expected
        assert result.finish == Finish(STOP, ord("c"))


@pytest.mark.parametrize("include", [False, True])
def test_an_end_may_be_announced_after_its_token(mock: Tokenizer, include: bool) -> None:
    options = TextOptions(stop_ids=frozenset({ord("c")}), include_stop=include)
    choice = ChoiceText(mock, options)
    assert not choice.push(b"c")
    delta = choice.push([], STOP)
    assert delta.text == (["c"] if include else [])
    assert delta.finish == Finish(STOP, ord("c"))
    assert choice.tokens == 1


@pytest.mark.parametrize("rows", [[b"cab"], [b"c", b"a", b"b"]])
def test_an_id_that_may_end_it_is_text_when_the_choice_goes_on(
    mock: Tokenizer, rows: list[bytes]
) -> None:
    options = TextOptions(stop_ids=frozenset({ord("c")}))
    result = total(run(ChoiceText(mock, options), rows, LENGTH))
    assert "".join(result.text) == "cab"
    assert [t.token for t in result.logprobs] == [b"c", b"a", b"b"]


def test_an_end_token_at_the_last_allowed_place_is_text_if_length_ended_it(
    mock: Tokenizer,
) -> None:
    options = TextOptions(stop_ids=frozenset({ord("c")}))
    result = total(run(ChoiceText(mock, options), [b"ab", b"c"], LENGTH))
    assert "".join(result.text) == "abc"
    assert result.finish == Finish(LENGTH)


def test_special_tokens_are_shown_on_demand(mock: Tokenizer) -> None:
    for skip, expected in ((True, "ab"), (False, "a<|start|>b")):
        result = total(run(ChoiceText(mock, TextOptions(skip_special=skip)), [[97, 258, 98]]))
        assert "".join(result.text) == expected


def test_stop_strings_are_not_looked_for_before_min_tokens(mock: Tokenizer) -> None:
    options = TextOptions(stops=("b",), min_tokens=3)
    result = total(run(ChoiceText(mock, options), one_by_one(b"abaab")))
    assert "".join(result.text) == "abaa"


def test_text_held_back_for_a_stop_string_comes_out_at_the_end(mock: Tokenizer) -> None:
    deltas = run(ChoiceText(mock, TextOptions(stops=("xyz",))), one_by_one(b"axy"))
    assert [("".join(d.text), d.finish) for d in deltas] == [("a", None), ("xy", Finish(LENGTH))]


@pytest.mark.parametrize("ids", [b"plain", "é한𝄞".encode(), b"held xy", b"cut xyz off"])
def test_the_tokens_of_the_logprobs_are_the_bytes_of_the_text(mock: Tokenizer, ids: bytes) -> None:
    result = total(run(ChoiceText(mock, TextOptions(stops=("xyz",))), one_by_one(ids)))
    text = "".join(result.text)
    assert b"".join(t.token for t in result.logprobs).decode() == text
    for token in result.logprobs:
        assert token.offset <= len(text)
        assert token.top[0] == (token.token, -0.5)


def test_logprobs_never_run_ahead_of_their_text(mock: Tokenizer) -> None:
    choice = ChoiceText(mock, TextOptions(stops=("xyz",)))
    sent = 0
    for token in "aéxyxxyq".encode():
        delta = choice.push([token], None, [logprobs_of(token)])
        sent += len("".join(delta.text))
        assert all(t.offset < sent for t in delta.logprobs)


def test_nothing_follows_the_end(mock: Tokenizer) -> None:
    choice = ChoiceText(mock, TextOptions(stops=("b",)))
    choice.push(b"ab")
    assert not choice.push(b"cd", LENGTH)
    assert choice.tokens == 2
