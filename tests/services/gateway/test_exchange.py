"""What a handler gets from its streams: everything, once, as soon as it is there."""

import asyncio

import pytest

from common.domain.errors import ErrorCode
from common.domain.finish import FinishReason
from common.domain.ids import AttemptKey, Incarnation, ProcessName, RequestId
from common.domain.ledger import Ledger
from common.domain.peer import PeerRef, Role
from services.gateway.exchange import AttemptLost, Exchange, Timing
from services.gateway.mock_text import mock_text
from services.gateway.streams import Failure, Stream, StreamState
from services.gateway.text_output import ChoiceText, Delta, Finish, TextOptions

END = Finish(FinishReason.LENGTH)


def exchange(*choices: int) -> Exchange:
    """One stream for each number of choices."""
    made = Exchange("id", "client", "chat", Timing(0.0))
    tokenizer = mock_text().tokenizer
    for count in choices:
        texts = [ChoiceText(tokenizer, TextOptions()) for _ in range(count)]
        made.open(Stream(AttemptKey(RequestId("id"), 1), count, 9), texts)
    return made


def fail(made: Exchange, number: int = 0) -> None:
    made.streams[number].failure = Failure(ErrorCode.WORKER_LOST, "gone", retryable=True)
    made.streams[number].state = StreamState.FAILED
    made.stream_ended()


async def test_deltas_of_one_choice_add_up_until_they_are_taken() -> None:
    made = exchange(2)
    made.feed(1, Delta(["a"]))
    made.feed(0, Delta(["x"]))
    made.feed(1, Delta(["b"], finish=END))
    assert await made.take() == {1: Delta(["a", "b"], finish=END), 0: Delta(["x"])}


async def test_take_waits_for_the_next_and_is_empty_at_the_end() -> None:
    made = exchange(1)
    waiting = asyncio.create_task(made.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    made.feed(0, Delta(["a"], finish=END))
    assert await waiting == {0: Delta(["a"], finish=END)}
    assert await made.take() == {}


async def test_choices_are_numbered_over_all_streams() -> None:
    made = exchange(2)
    tokenizer = mock_text().tokenizer
    second = Stream(AttemptKey(RequestId("id-1"), 1), 2, 9)
    texts = [ChoiceText(tokenizer, TextOptions()) for _ in range(2)]
    assert made.open(second, texts) == 2


async def test_text_before_a_failure_is_handed_over_first() -> None:
    made = exchange(1)
    made.feed(0, Delta(["a"]))
    fail(made)
    assert await made.take() == {0: Delta(["a"])}
    with pytest.raises(AttemptLost, match="gone") as caught:
        await made.take()
    assert caught.value.code is ErrorCode.WORKER_LOST
    assert caught.value.retryable


async def test_first_prefers_a_failure_to_text_of_another_stream() -> None:
    made = exchange(1, 1)
    made.feed(0, Delta(["a"]))
    fail(made, 1)
    with pytest.raises(AttemptLost):
        await made.first()


async def test_a_failure_wakes_who_waits() -> None:
    made = exchange(1)
    waiting = asyncio.create_task(made.take())
    await asyncio.sleep(0)
    fail(made)
    with pytest.raises(AttemptLost):
        await waiting


async def test_the_ledger_is_the_sum_and_waits_for_the_last_stream() -> None:
    made = exchange(1, 1)
    made.streams[0].ledger = Ledger(cached_host_tokens=3)
    made.streams[0].state = StreamState.FINISHED
    waiting = asyncio.create_task(made.ledger())
    await asyncio.sleep(0)
    assert not waiting.done()
    made.streams[1].ledger = Ledger(cached_host_tokens=4)
    made.streams[1].state = StreamState.FINISHED
    made.stream_ended()
    assert (await waiting).cached_tokens == 7


async def test_nothing_is_kept_for_a_handler_that_left() -> None:
    made = exchange(1)
    made.feed(0, Delta(["a"]))
    made.leave()
    made.feed(0, Delta(["b"], finish=END))
    assert await made.take() == {}


def test_who_serves_is_named_once_each() -> None:
    made = exchange(1, 1, 1)
    assert (made.prefill_workers, made.writers) == ([], [])
    for stream, number in zip(made.streams, (1, 0, 1), strict=True):
        name = ProcessName(f"decode-{number}")
        stream.writer = PeerRef(name, Incarnation(1), Role.DECODE, f"mem://{name}")
        stream.prefill = "prefill-0"
    assert made.prefill_workers == ["prefill-0"]
    assert made.writers == ["decode-0", "decode-1"]
