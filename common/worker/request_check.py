"""What a request must be for an engine to survive it.

Gateways check what clients ask for and say why not; this is the check of a peer's bytes. An id
outside the vocabulary, no prompt or no choice at all would fail inside the engine, and an engine's
failure is the whole process's.
"""

from common.domain.errors import ProtocolError
from common.domain.sampling import SamplingParams
from common.wire.columns import unpack_i32

SEEDS = 1 << 64
MOST_CHOICES = 128


def prompt_ids(column: bytes, vocab: int) -> list[int]:
    """Raises ProtocolError unless they are ids of the vocabulary, and at least one."""
    prompt = unpack_i32(column)
    if not len(prompt) or prompt.min() < 0 or prompt.max() >= vocab:
        raise ProtocolError("prompt ids outside the vocabulary")
    ids: list[int] = prompt.tolist()
    return ids


def check_sampling(params: SamplingParams, vocab: int) -> None:
    """Raises ProtocolError on what no engine can draw by."""
    if not 1 <= params.n <= MOST_CHOICES or params.max_tokens < 1:
        raise ProtocolError("a request for no token, or for too many choices")
    if not 0 <= params.seed < SEEDS:
        raise ProtocolError("a seed of more than 64 bits")
    if any(not 0 <= token < vocab for token, _ in params.logit_bias):
        raise ProtocolError("a bias of a token outside the vocabulary")
