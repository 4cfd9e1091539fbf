import numpy as np

from common.engine.bench.metered import MeteredRunner
from common.engine.bench.pieces import Piece, batch_of
from common.engine.mock import MockRunner
from tests.support.engines import Bench, greedy, prompt_of

PROMPT = prompt_of(40)


def test_an_engine_says_the_same_through_it() -> None:
    plain, metered = Bench(), Bench(runner=MeteredRunner(MockRunner(32)))
    for bench in (plain, metered):
        bench.add("a", PROMPT, greedy(5, n=2))
        bench.run()
    assert metered.output("a", 0) == plain.output("a", 0)
    assert metered.output("a", 1) == plain.output("a", 1)


def test_it_has_the_shape_of_what_is_inside() -> None:
    mock = MockRunner(16, context_tokens=99)
    metered = MeteredRunner(mock)
    assert (metered.layout, metered.vocab) == (mock.layout, mock.vocab)
    assert (metered.context_tokens, metered.eos_token_ids) == (99, mock.eos_token_ids)


def test_each_batch_is_noted_once() -> None:
    metered = MeteredRunner(MockRunner(32))
    metered.bind(memoryview(bytearray(metered.layout.block_bytes)), 1, metered.layout.block_bytes)
    batch = batch_of([Piece(np.zeros(1, dtype=np.int32), [65], 0, 1)])
    metered.step(batch)
    metered.step(batch)
    noted = metered.take()
    assert noted.batches == [batch, batch]
    assert noted.seconds > 0
    assert metered.take().batches == []
