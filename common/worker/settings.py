"""What prefill and decode workers are told beyond what every process is."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from common.engine.allocators import AllocatorName
from common.engine.schedulers import SchedulerName
from common.runtime.settings import EngineName, ProcessSettings


class WorkerSettings(ProcessSettings):
    """Fields common to both roles."""

    engine: EngineName = Field(
        default="auto",
        description="What computes: native CPU kernels, torch, or hashes that stand for a model;"
        " auto: native where it can run, else torch.",
    )
    arithmetic: Literal["bf16", "int8"] = Field(
        default="bf16",
        description="Of the native kernels: bf16, or int8, which is faster for few streams, slower"
        " for prompts and less accurate. torch computes in fp32.",
    )
    cpu_level: Literal["best", "amx", "avx512", "avx2"] = Field(
        default="best",
        description="Instructions the native kernels use; best: the highest this CPU has. The"
        " tokens are the same on all.",
    )
    model: str = Field(default="", description="GGUF file or Hugging Face folder; empty: default.")
    cache: Path = Field(
        default=Path("~/.cache/twinfleet"), description="Folder of models and prepared tensors."
    )
    device: str = Field(default="cpu", description="Where torch computes: cpu or cuda:N.")
    threads: int = Field(default=1, ge=1, description="Threads of one forward pass.")
    block_tokens: Annotated[Literal[16, 32, 64], BeforeValidator(int)] = Field(
        default=32, description="Tokens of one KV block."
    )
    kv_pool_bytes: int = Field(
        default=512 << 20, ge=1 << 16, description="Size of this worker's KV pool."
    )
    step_tokens: int = Field(
        default=512, ge=16, description="Most tokens of one step: chunks of prompts fill it up."
    )
    tpot_target_ms: float = Field(
        default=0,
        ge=0,
        allow_inf_nan=False,
        description="Milliseconds that a step with running streams may take when prompts fill it"
        " up; 0: what its streams take plus what 128 prompt tokens take.",
    )
    max_sequences: int = Field(
        default=64, ge=1, description="Most sequences that hold blocks at once."
    )
    context_tokens: int = Field(
        default=0,
        ge=0,
        description="Longest prompt and answer together; 0: what the model can.",
    )
    scheduler: SchedulerName = Field(
        default="chunked",
        description="What a step computes: chunked (decodes, and chunks of prompts beside them),"
        " prefill_first (whole prompts before any decode) or static (batches that nobody joins).",
    )
    allocator: AllocatorName = Field(
        default="paged",
        description="Where KV lies: paged (blocks as needed, prefixes shared), or one run of slots"
        " a sequence for the longest context (contiguous_max), for the next power of two of"
        " max_tokens (contiguous_pow2) or for max_tokens (contiguous_oracle), nothing shared.",
    )
    mock_prefill_us: int = Field(
        default=0, ge=0, description="Mock engine: microseconds a prompt token takes."
    )
    mock_decode_us: int = Field(
        default=0, ge=0, description="Mock engine: microseconds a step with decodes takes."
    )
