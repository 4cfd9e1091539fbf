"""What a submit asks for, in blocks."""

from dataclasses import replace

import pytest

from common.domain.errors import ProtocolError
from common.wire.columns import pack_i32
from services.router.placement import Candidate, WorkerLoad, need_of
from tests.support.router_world import BLOCK_TOKENS, process, prompt_of, submit


@pytest.mark.parametrize(
    ("tail", "choices", "blocks"),
    [(0, 1, 4), (0, 3, 6), (31, 1, 4), (30, 2, 5), (1, 5, 8)],
)
def test_whole_blocks_count_once_and_a_tail_per_choice(
    tail: int, choices: int, blocks: int
) -> None:
    need = need_of(submit("r", prompt_of(3, tail=tail), n=choices), BLOCK_TOKENS)
    assert need.blocks == blocks
    assert need.prompt_blocks == (4 if tail else 3)
    assert need.prompt_tokens == 96 + tail


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_tokens": 1}, True),
        ({"max_tokens": 2}, False),
        ({"max_tokens": 1, "min_tokens": 1}, False),
    ],
)
def test_a_single_token_is_recognised(changes: dict[str, object], expected: bool) -> None:
    assert need_of(submit("r", **changes), BLOCK_TOKENS).one_token is expected


@pytest.mark.parametrize(
    "changes",
    [{"prompt": b"123"}, {"units": b"123"}, {"prompt": pack_i32([1])}],
    ids=["broken prompt", "broken units", "more units than prompt"],
)
def test_broken_columns_are_a_protocol_error(changes: dict[str, bytes]) -> None:
    message = replace(submit("r"), **changes)
    with pytest.raises(ProtocolError):
        need_of(message, BLOCK_TOKENS)


def test_a_prefix_may_come_from_either_medium() -> None:
    worker = process("decode-0")
    assert Candidate(worker, WorkerLoad(), device_units=2, host_units=6).cached_tokens == 96
    assert Candidate(worker, WorkerLoad(), device_units=3, host_units=1).cached_tokens == 48
