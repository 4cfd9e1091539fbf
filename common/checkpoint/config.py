"""The shape of a model, from whatever file describes it.

Everything the engine needs to know before it sees a tensor. `ModelConfig` is checked when it is
built, so a config that exists is one the engine can run: sizes are positive, heads divide, and each
feature that would change the arithmetic is either described here or refused by name. The readers of
the two formats are `hf_config` and `gguf_config`.
"""

from dataclasses import dataclass
from typing import Literal

from common.checkpoint.errors import CheckpointError

Arch = Literal["llama", "qwen3"]


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Every rope frequency divided by `factor`."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Low frequencies divided by `factor`, high ones kept, a smooth ramp between."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context_tokens: int


@dataclass(frozen=True, slots=True)
class FrequencyDivisors:
    """One divisor for each of the head_dim / 2 frequencies: as GGUF writes Llama 3 scaling."""

    divisors: tuple[float, ...]


RopeScaling = LinearScaling | Llama3Scaling | FrequencyDivisors


@dataclass(frozen=True, slots=True)
class ModelConfig:
    arch: Arch
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context_tokens: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    rms_norm_eps: float
    tied_embeddings: bool
    """The output projection is the embedding matrix; there is no `lm_head.weight`."""
    attention_bias: bool
    """q, k, v and o projections have a bias."""
    mlp_bias: bool
    qk_norm: bool
    """RMS norm over each head of q and k before rope."""
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in (
            "hidden",
            "layers",
            "heads",
            "kv_heads",
            "head_dim",
            "intermediate",
            "vocab",
            "context_tokens",
            "rope_theta",
            "rms_norm_eps",
        ):
            if not getattr(self, name) > 0:
                raise CheckpointError(f"{name} must be positive, is {getattr(self, name)}")
        if self.heads % self.kv_heads:
            raise CheckpointError(
                f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})"
            )
        if self.head_dim % 2:
            raise CheckpointError(f"head_dim must be even for rope, is {self.head_dim}")
        self._check_token_ids()
        self._check_scaling()

    def _check_token_ids(self) -> None:
        ids = (
            self.eos_token_ids
            if self.bos_token_id is None
            else (*self.eos_token_ids, self.bos_token_id)
        )
        for token in ids:
            if not 0 <= token < self.vocab:
                raise CheckpointError(f"token id {token} is outside the vocabulary of {self.vocab}")

    def _check_scaling(self) -> None:
        match self.rope_scaling:
            case None:
                return
            case FrequencyDivisors(divisors):
                if len(divisors) != self.head_dim // 2 or min(divisors) <= 0:
                    raise CheckpointError(
                        f"rope scaling needs {self.head_dim // 2} positive divisors"
                    )
            case LinearScaling(factor):
                if factor <= 0:
                    raise CheckpointError(f"rope scaling factor must be positive, is {factor}")
            case Llama3Scaling() as scaling:
                if (
                    scaling.factor <= 0
                    or not 0 < scaling.low_freq_factor < scaling.high_freq_factor
                ):
                    raise CheckpointError(f"rope scaling makes no sense: {scaling}")
