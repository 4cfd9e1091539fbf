"""Faults that users of other serving systems met, tried end to end with the real model.

The real cluster computes in chunks of one block of 16 tokens, and decode has 28 blocks.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.live import Json, Live, wait_until
from tests.support.prompts import token_prompt

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(150)]

COMPLETIONS = "/v1/completions"
VOCAB = 49_152
BLOCK = 16
SEEDED = 30
SENTENCE = "The weather in Paris is"
CUT = "\N{REPLACEMENT CHARACTER}"


def streamed(live: Live, body: Json) -> tuple[list[str], str, str | int | None]:
    """Text chunks of the one choice, its finish and stop reason."""
    choices = [event["choices"][0] for event in live.events(COMPLETIONS, body)]
    ends = [choice for choice in choices if choice["finish_reason"]]
    (end,) = ends
    return [c["text"] for c in choices], end["finish_reason"], end["stop_reason"]


def test_a_stop_string_that_ends_inside_a_token_cuts_the_text_before_it(real: Live) -> None:
    body = {"prompt": SENTENCE, "max_tokens": 12, "temperature": 0, "logprobs": 0}
    whole = real.post(COMPLETIONS, body)["choices"][0]
    inner = [token[1:4] for token in whole["logprobs"]["tokens"] if len(token) >= 6]
    assert len(inner) >= 2
    for stop in (inner[0], inner[-1]):
        expected = whole["text"][: whole["text"].index(stop)]
        stopped = real.post(COMPLETIONS, body | {"stop": stop})["choices"][0]
        assert stopped["text"] == expected
        assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", stop)
        pieces, finish, reason = streamed(real, body | {"stop": [stop]})
        assert "".join(pieces) == expected
        assert (finish, reason) == ("stop", stop)
    real.wait_until_nothing_is_held(5)


@pytest.mark.parametrize(("characters", "tokens"), [("漢字", 8), ("😀😁", 6)])
def test_no_chunk_holds_half_a_character(real: Live, characters: str, tokens: int) -> None:
    body = {"prompt": characters * 6, "max_tokens": tokens, "temperature": 0}
    text = real.post(COMPLETIONS, body)["choices"][0]["text"]
    assert any(character in text for character in characters)
    assert CUT not in text
    pieces, _, _ = streamed(real, body)
    assert CUT not in "".join(pieces)
    assert "".join(pieces) == text
    # One token more is the first part of a character: marked once, at the very end.
    longer = body | {"max_tokens": tokens + 1}
    assert real.post(COMPLETIONS, longer)["choices"][0]["text"] == text + CUT
    assert "".join(streamed(real, longer)[0]) == text + CUT


def sampled(live: Live, prompt: list[int], tokens: int, **fields: object) -> tuple[list[int], int]:
    """(ids, preemptions). Not from the far tail: there a token's share of the probability is
    smaller than what another order of float32 sums changes."""
    answer = live.complete(prompt, tokens, temperature=0.8, top_k=50, **fields)
    return answer["choices"][0]["token_ids"], answer["streams"][0]["ledger"]["preemptions"]


@pytest.fixture(scope="module")
def story(real: Live) -> list[int]:
    """30 ids: two blocks."""
    text = "Once upon a time, in a small village by the sea, there lived an old man who had " * 2
    ids: list[int] = real.post("/tokenize", {"prompt": text})["tokens"]
    return ids[:30]


@pytest.fixture(scope="module")
def alone(real: Live, story: list[int]) -> list[int]:
    return sampled(real, story, SEEDED, seed=42)[0]


@pytest.mark.parametrize(("neighbours", "tokens"), [(1, 30), (7, 44)])
def test_a_seeded_request_gives_the_same_ids_beside_unseeded_ones_and_when_preempted(
    real: Live, story: list[int], alone: list[int], neighbours: int, tokens: int
) -> None:
    with ThreadPoolExecutor(neighbours) as pool:
        others = [
            pool.submit(sampled, real, token_prompt(30, VOCAB, seed=i), tokens)
            for i in range(neighbours)
        ]
        wait_until(lambda: real.status("decode-0")["attempts"] == neighbours, 20, "neighbours")
        beside, preemptions = sampled(real, story, SEEDED, seed=42)
        assert all(len(other.result()[0]) == tokens for other in others)
    assert beside == alone
    # There are 28 blocks, and seven neighbours that need five each in the end.
    assert (preemptions > 0) == (neighbours == 7)


def test_repetition_counts_the_prompt_and_presence_does_not_on_a_cold_and_a_warm_cache(
    real: Live,
) -> None:
    text = "the cat sat on the mat. " * 3 + "the cat sat on the"
    prompt = real.post("/tokenize", {"prompt": text})["tokens"]
    plain = real.complete(prompt, 1)["choices"][0]["token_ids"]
    assert plain[0] in prompt
    for salt, penalty in [
        ("a", {"repetition_penalty": 1.3}),
        ("b", {"repetition_penalty": 10.0}),
        ("c", {"presence_penalty": 2.0, "frequency_penalty": 2.0}),
    ]:
        cold, warm = (real.complete(prompt, 6, cache_salt=salt, **penalty) for _ in range(2))
        ids = cold["choices"][0]["token_ids"]
        assert warm["choices"][0]["token_ids"] == ids
        assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        match salt:
            case "b":
                assert not set(ids) & set(prompt)
            case "c":
                assert ids[0] == plain[0]
                assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("length", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_a_prompt_that_is_cached_to_its_last_block_is_answered_as_when_it_was_new(
    real: Live, length: int
) -> None:
    prompt = token_prompt(length, VOCAB, seed=7)
    first, second = (real.complete(prompt, 3) for _ in range(2))
    assert second["choices"][0]["token_ids"] == first["choices"][0]["token_ids"]
    cached = (length - 1) // BLOCK * BLOCK
    for answer, found in ((first, 0), (second, cached)):
        usage = answer["usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (length, 3)
        assert usage["prompt_tokens_details"]["cached_tokens"] == found
        ledger = answer["streams"][0]["ledger"]
        computed = ledger["prefill_computed_tokens"] + ledger["decode_prefill_tokens"]
        assert computed == length - found
        assert ledger["prefill_chunks"] >= (1 if found else -(-length // BLOCK))
