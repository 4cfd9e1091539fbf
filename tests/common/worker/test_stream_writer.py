"""Columns of a step, and ends that are repeated until they are heard."""

import asyncio

from common.domain.finish import FinishReason
from common.domain.ids import ProcessId
from common.domain.ledger import Ledger
from common.engine.runner import Drawn
from common.wire.columns import unpack_i32
from common.wire.messages import Message
from common.wire.messages.tokens import Finished, TokenBatch, TokenLogprobs
from common.worker.stream_writer import RESEND_S, StreamWriter
from tests.support.engines import key
from tests.support.ports import process
from tests.support.sim.loop import on_a_warped_clock

ONE, TWO = process("gateway-0", 1), process("gateway-1", 1)


class FakeLinks:
    """Stands for PeerLinks."""

    def __init__(self) -> None:
        self.sent: list[tuple[ProcessId, Message]] = []
        self.gone: set[ProcessId] = set()

    def send(self, peer: ProcessId, message: Message) -> bool:
        if peer in self.gone:
            return False
        self.sent.append((peer, message))
        return True


def new() -> tuple[StreamWriter, FakeLinks]:
    links = FakeLinks()
    return StreamWriter(links), links


def test_a_step_is_one_message_a_gateway_with_a_row_a_choice() -> None:
    writer, links = new()
    writer.emit(ONE, key("a", 2), 0, 5, [Drawn(65)], None)
    writer.emit(TWO, key("b"), 0, 0, [Drawn(70), Drawn(71)], None)
    writer.emit(ONE, key("a", 2), 1, 7, [Drawn(66)], FinishReason.STOP)
    writer.emit(ONE, key("c"), 0, 1, [], FinishReason.LENGTH)
    assert links.sent == []
    writer.flush()
    (first, batch), (second, other) = links.sent
    assert (first, second) == (ONE, TWO)
    assert isinstance(batch, TokenBatch)
    assert isinstance(other, TokenBatch)
    assert batch.requests == ("a", "a", "c")
    columns = (batch.attempts, batch.choices, batch.starts, batch.counts, batch.tokens)
    assert [unpack_i32(column).tolist() for column in columns] == [
        [2, 2, 0],
        [0, 1, 0],
        [5, 7, 1],
        [1, 1, 0],
        [65, 66],
    ]
    assert batch.finishes == bytes([0, FinishReason.STOP, FinishReason.LENGTH])
    assert (batch.logprobs, batch.with_logprobs) == ((), bytes(3))
    assert unpack_i32(other.counts).tolist() == [2]


def test_a_step_that_gave_nothing_says_nothing_and_rows_are_said_once() -> None:
    writer, links = new()
    writer.flush()
    writer.emit(ONE, key("a"), 0, 0, [Drawn(65)], None)
    writer.flush()
    writer.flush()
    assert len(links.sent) == 1


def test_log_probabilities_stand_in_the_order_of_the_rows_that_have_them() -> None:
    writer, links = new()
    writer.emit(ONE, key("a"), 0, 0, [Drawn(65, -0.5, ((65, -0.5),))], None)
    writer.emit(ONE, key("b"), 0, 0, [Drawn(66)], None)
    writer.emit(ONE, key("c"), 0, 0, [Drawn(67, -0.7)], None)
    writer.emit(ONE, key("a"), 0, 1, [], FinishReason.STOP)
    writer.flush()
    ((_, batch),) = links.sent
    assert isinstance(batch, TokenBatch)
    assert batch.with_logprobs == bytes([1, 0, 1, 0])
    assert [entry.chosen for entry in batch.logprobs] == [-0.5, -0.7]
    assert isinstance(batch.logprobs[0], TokenLogprobs)
    assert batch.logprobs[0].top == (-0.5,)


@on_a_warped_clock
async def test_an_end_is_repeated_until_acknowledged() -> None:
    writer, links = new()
    writer.finish(ONE, key("a"), Ledger(decode_steps=3))
    end = Finished(key("a"), Ledger(decode_steps=3))
    assert links.sent == [(ONE, end)]
    writer.resend(RESEND_S / 2)
    assert len(links.sent) == 1
    writer.resend(RESEND_S)
    writer.resend(RESEND_S * 1.5)
    writer.resend(RESEND_S * 2)
    assert links.sent == [(ONE, end)] * 3
    assert len(writer) == 1
    writer.acknowledged(key("a", 1))
    writer.acknowledged(key("a"))
    writer.acknowledged(key("a"))
    writer.resend(RESEND_S * 10)
    assert len(links.sent) == 3
    assert len(writer) == 0


@on_a_warped_clock
async def test_to_a_gateway_that_is_gone_nothing_is_owed() -> None:
    writer, links = new()
    await asyncio.sleep(1)
    writer.finish(ONE, key("a"), Ledger())
    writer.finish(TWO, key("b"), Ledger())
    writer.gateway_lost(ONE)
    assert len(writer) == 1
    links.gone.add(TWO)
    writer.emit(TWO, key("c"), 0, 0, [Drawn(65)], None)
    writer.flush()
    writer.finish(TWO, key("c"), Ledger())
    assert len(writer) == 1, "what could not be said is not kept to be said again"
