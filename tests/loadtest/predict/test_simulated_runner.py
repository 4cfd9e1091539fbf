import numpy as np

from common.engine.bench.pieces import Piece, batch_of
from common.engine.step_cost import StepShape
from loadtest.predict.simulated_runner import TOKEN, SimulatedRunner, shape_of

TABLE = np.arange(8, dtype=np.int32)


def test_the_shape_of_a_batch_counts_rows_contexts_tokens_and_pairs() -> None:
    batch = batch_of(
        [
            Piece(TABLE, [1], 99, 1),
            Piece(TABLE, [1], 49, 1),
            Piece(TABLE, [1, 2, 3], 0, 1),
            Piece(TABLE, [1, 2], 10, 0),
        ]
    )
    # 1 + 2 + 3 pairs of the prompt that begins, 11 + 12 of the one that goes on
    assert shape_of(batch) == StepShape(2, 150, 5, 6 + 23)


def test_a_step_spends_its_shape_and_draws_a_token_for_each_draw() -> None:
    spent: list[StepShape] = []
    runner = SimulatedRunner(32, 1024, spent.append)
    drawn = runner.step(batch_of([Piece(TABLE, [1], 9, 1), Piece(TABLE, [1], 19, 1)]))
    assert [one.token for one in drawn] == [TOKEN, TOKEN]
    assert spent == [StepShape(2, 30)]
