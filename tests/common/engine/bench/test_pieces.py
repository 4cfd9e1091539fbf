import numpy as np

from common.engine.bench.pieces import Piece, batch_of


def test_pieces_lie_end_to_end_and_draw_from_their_last_rows() -> None:
    tables = [np.array([4, 2], dtype=np.int32), np.array([7], dtype=np.int32)]
    batch = batch_of([Piece(tables[0], [11, 12, 13], 30, 2), Piece(tables[1], [14], 5, 1)])
    assert batch.tokens.tolist() == [11, 12, 13, 14]
    assert batch.positions.tolist() == [30, 31, 32, 5]
    assert batch.starts.tolist() == [0, 3, 4]
    assert batch.rows.tolist() == [1, 2, 3]
    assert [draw.row for draw in batch.draws] == [0, 1, 2]
    assert batch.tables == tables


def test_a_piece_nobody_draws_from_wants_no_row() -> None:
    batch = batch_of([Piece(np.array([0], dtype=np.int32), [1, 2], 0, 0)])
    assert batch.rows.tolist() == []
    assert batch.draws == []
