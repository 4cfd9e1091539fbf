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


def test_tokens_already_received_need_room_too() -> None:
    message = submit("r", prompt_of(3, tail=10), n=2)
    message = replace(message, received=(pack_i32(range(54)), pack_i32(range(5))))
    # 10 + 54 + 1 tokens are three blocks, 10 + 5 + 1 are one.
    assert need_of(message, BLOCK_TOKENS).blocks == 3 + 3 + 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"max_tokens": 1}, True),
        ({"max_tokens": 2}, False),
        ({"max_tokens": 1, "min_tokens": 1}, False),
        ({"max_tokens": 1, "received": (pack_i32([5]),)}, False),
        ({"max_tokens": 1, "received": (b"",)}, True),
    ],
)
def test_a_single_token_is_recognised(changes: dict[str, object], expected: bool) -> None:
    assert need_of(submit("r", **changes), BLOCK_TOKENS).one_token is expected


@pytest.mark.parametrize(
    "changes",
    [{"prompt": b"123"}, {"units": b"123"}, {"received": (b"1",)}, {"prompt": pack_i32([1])}],
    ids=["broken prompt", "broken units", "broken ids", "more units than prompt"],
)
def test_broken_columns_are_a_protocol_error(changes: dict[str, bytes]) -> None:
    message = replace(submit("r"), **changes)
    with pytest.raises(ProtocolError):
        need_of(message, BLOCK_TOKENS)


def test_a_prefix_may_come_from_either_medium() -> None:
    worker = process("decode-0")
    assert Candidate(worker, WorkerLoad(), device_units=2, host_units=6).cached_tokens == 96
    assert Candidate(worker, WorkerLoad(), device_units=3, host_units=1).cached_tokens == 48
