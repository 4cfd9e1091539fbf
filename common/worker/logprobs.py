"""Drawn tokens' log-probabilities, as they travel."""

from collections.abc import Sequence

from common.domain.errors import ProtocolError
from common.engine.runner import Drawn
from common.wire.columns import pack_i32, unpack_i32
from common.wire.messages.tokens import TokenLogprobs


def pack_one(drawn: Drawn) -> TokenLogprobs:
    """Of a token that has them."""
    return TokenLogprobs(
        chosen=drawn.logprob if drawn.logprob is not None else 0.0,
        top_ids=pack_i32(token for token, _ in drawn.top),
        top=tuple(logprob for _, logprob in drawn.top),
    )


def pack_logprobs(drawn: Sequence[Drawn]) -> tuple[TokenLogprobs, ...]:
    """One entry per token, or none at all if nobody asked."""
    if any(token.logprob is None for token in drawn):
        return ()
    return tuple(pack_one(token) for token in drawn)


def unpack_drawn(tokens: bytes, logprobs: Sequence[TokenLogprobs]) -> tuple[Drawn, ...]:
    """Raises ProtocolError if the columns do not fit each other."""
    ids = unpack_i32(tokens).tolist()
    if not logprobs:
        return tuple(Drawn(token) for token in ids)
    if len(logprobs) != len(ids):
        raise ProtocolError("as many log-probabilities as tokens are needed")
    return tuple(_unpack_one(token, entry) for token, entry in zip(ids, logprobs, strict=True))


def _unpack_one(token: int, entry: TokenLogprobs) -> Drawn:
    top_ids = unpack_i32(entry.top_ids).tolist()
    if len(top_ids) != len(entry.top):
        raise ProtocolError("as many ids as log-probabilities are needed")
    return Drawn(token, entry.chosen, tuple(zip(top_ids, entry.top, strict=True)))
