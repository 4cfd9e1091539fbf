"""Log-probabilities as they travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.domain.errors import ProtocolError
from common.engine.runner import Drawn
from common.wire.columns import pack_i32
from common.wire.messages.tokens import TokenLogprobs
from common.worker.logprobs import pack_logprobs, unpack_drawn

TOKENS = st.integers(0, 10**5)
LOGPROBS = st.floats(-50, 0)
DRAWN = st.builds(
    Drawn, TOKENS, LOGPROBS, st.lists(st.tuples(TOKENS, LOGPROBS), max_size=4).map(tuple)
)


@given(st.lists(DRAWN, max_size=5))
def test_they_come_back_with_their_tokens(drawn: list[Drawn]) -> None:
    tokens = pack_i32(token.token for token in drawn)
    assert unpack_drawn(tokens, pack_logprobs(drawn)) == tuple(drawn)


def test_nobody_asked_means_no_entries_at_all() -> None:
    assert pack_logprobs([Drawn(1), Drawn(2)]) == ()
    assert unpack_drawn(pack_i32([1, 2]), ()) == (Drawn(1), Drawn(2))


@pytest.mark.parametrize(
    ("tokens", "logprobs"),
    [
        (pack_i32([1, 2]), (TokenLogprobs(-1.0, b"", ()),)),
        (pack_i32([1]), (TokenLogprobs(-1.0, pack_i32([5]), ()),)),
        (pack_i32([1]), (TokenLogprobs(-1.0, b"\x01", (-1.0,)),)),
        (b"\x01\x02", ()),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    tokens: bytes, logprobs: tuple[TokenLogprobs, ...]
) -> None:
    with pytest.raises(ProtocolError):
        unpack_drawn(tokens, logprobs)
