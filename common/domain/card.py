"""The model card: what must be equal for two processes to speak about the same tokens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One per served model. The gateway hashes prompts with it; the router refuses a worker whose
    card differs from the one already served, because its blocks would be another model's."""

    model: str
    """Name clients ask for."""
    weights_digest: str
    """SHA-256 hex over the checkpoint and the arithmetic it is run in."""
    tokenizer_digest: str
    arithmetic: str
    """For example `fp32`. Two arithmetics give different KV and so different digests."""
    block_tokens: int
    context_tokens: int
    """The most tokens a sequence may have: the model's limit or a worker's pool, the smaller."""
    vocab: int
    eos_token_ids: tuple[int, ...]
