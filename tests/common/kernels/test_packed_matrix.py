import numpy as np
import pytest

from common.kernels.packed_matrix import Kind, PackedMatrix, padded_rows


@pytest.mark.parametrize(("rows", "padded"), [(1, 32), (32, 32), (33, 64), (576, 576)])
def test_rows_are_padded_to_pairs_of_strips(rows: int, padded: int) -> None:
    matrix = PackedMatrix(Kind.BF16, rows, 32, np.zeros(0, np.uint8))
    assert padded_rows(rows) == padded
    assert matrix.strips == padded // 16


@pytest.mark.parametrize(
    ("kind", "cols", "tiles"),
    [
        (Kind.BF16, 33, 2),
        (Kind.Q8, 64, 2),
        (Kind.Q4, 96, 3),
        (Kind.QUADS4, 64, 1),
        (Kind.QUADS8, 65, 2),
    ],
)
def test_columns_are_cut_into_whole_tiles(kind: Kind, cols: int, tiles: int) -> None:
    assert PackedMatrix(kind, 32, cols, np.zeros(0, np.uint8)).column_tiles == tiles


def test_the_numbers_of_the_kinds_are_those_of_the_kernels() -> None:
    kinds = [(k.name, k.value, k.tile_bytes, k.tile_columns) for k in Kind]
    assert kinds == [
        ("BF16", 0, 1024, 32),
        ("Q8", 1, 544, 32),
        ("Q4", 2, 320, 32),
        ("QUADS4", 3, 640, 64),
        ("QUADS8", 4, 1088, 64),
    ]
