"""How the next token is drawn. Fixed by the gateway, obeyed by the engine, echoed by nobody."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Sampling of every choice of one request.

    The order in which an engine applies them is part of the contract, because a seed must give the
    same tokens on every worker: logit_bias; repetition penalty (prompt and output); presence and
    frequency penalties (output alone); ban of end tokens while fewer than `min_tokens` were
    emitted; then, if `temperature` is 0, argmax with ties to the lowest id; else temperature,
    top_k, top_p, min_p and one inverse-CDF draw over tokens ordered by logit.
    """

    seed: int
    """0 <= seed < 2**64. The gateway draws one when the client gave none."""
    max_tokens: int
    n: int = 1
    temperature: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None
    """None: no log-probabilities. k >= 0: the chosen token's and the k most likely ones', from the
    model's own distribution (before bias, penalties and temperature)."""
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
