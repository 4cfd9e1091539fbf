"""When a choice ends, as far as ids can tell."""

import pytest

from common.domain.finish import FinishReason
from common.engine.finish import finish_of
from common.engine.sequence import Sequence
from tests.support.engines import ROOT, greedy, key

EOS = (2, 3)


def sequence(output: list[int], prompt: int = 4, **params: object) -> Sequence:
    made = Sequence(key("a"), 0, [9] * prompt, greedy(5, **params), 0, ROOT)
    made.output = output
    return made


@pytest.mark.parametrize(
    ("output", "params", "context", "expected"),
    [
        ([7], {}, 100, None),
        ([7, 7, 7, 7], {}, 100, None),
        ([7, 7, 7, 7, 7], {}, 100, FinishReason.LENGTH),
        ([7, 2], {}, 100, FinishReason.STOP),
        ([3], {}, 100, FinishReason.STOP),
        ([2, 7], {}, 100, None),
        ([7, 7, 7, 7, 2], {}, 100, FinishReason.STOP),
        ([2], {"ignore_eos": True}, 100, None),
        ([7, 7, 7, 7, 2], {"ignore_eos": True}, 100, FinishReason.LENGTH),
        ([8], {"stop_token_ids": (8, 9)}, 100, FinishReason.STOP),
        ([2], {"stop_token_ids": (2,), "ignore_eos": True}, 100, FinishReason.STOP),
        ([7, 7], {}, 7, None),
        ([7, 7, 7], {}, 7, FinishReason.LENGTH),
        ([2], {}, 5, FinishReason.STOP),
    ],
)
def test_the_newest_token_decides(
    output: list[int], params: dict[str, object], context: int, expected: FinishReason | None
) -> None:
    assert finish_of(sequence(output, **params), EOS, context) is expected
