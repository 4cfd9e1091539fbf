"""A peer's bytes never reach an engine that they would break."""

from dataclasses import replace

import pytest

from common.domain.errors import ProtocolError
from common.wire.columns import pack_i32
from common.worker.request_check import MOST_CHOICES, SEEDS, check_sampling, prompt_ids
from tests.support.engines import greedy

VOCAB = 260


def test_ids_of_the_vocabulary_are_a_prompt() -> None:
    assert prompt_ids(pack_i32([0, 259, 7]), VOCAB) == [0, 259, 7]


@pytest.mark.parametrize("column", [b"", b"\x01\x00", pack_i32([1, 260]), pack_i32([-1])])
def test_anything_else_is_not(column: bytes) -> None:
    with pytest.raises(ProtocolError):
        prompt_ids(column, VOCAB)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 1},
        {"n": MOST_CHOICES},
        {"seed": SEEDS - 1},
        {"seed": 0},
        {"max_tokens": 1},
        {"logit_bias": ((0, 1.0), (259, -100.0))},
    ],
)
def test_what_an_engine_can_draw_by(changes: dict[str, object]) -> None:
    check_sampling(replace(greedy(5), **changes), VOCAB)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 0},
        {"n": MOST_CHOICES + 1},
        {"max_tokens": 0},
        {"seed": -1},
        {"seed": SEEDS},
        {"logit_bias": ((0, 1.0), (260, 1.0))},
        {"logit_bias": ((-1, 1.0),)},
    ],
)
def test_what_it_cannot(changes: dict[str, object]) -> None:
    with pytest.raises(ProtocolError):
        check_sampling(replace(greedy(5), **changes), VOCAB)
