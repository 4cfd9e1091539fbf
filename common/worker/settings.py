"""What prefill and decode workers are told beyond what every process is."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from common.runtime.settings import ProcessSettings


class WorkerSettings(ProcessSettings):
    """Fields common to both roles."""

    engine: Literal["torch", "mock"] = Field(
        default="torch", description="What computes: a real model, or hashes that stand for one."
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
    max_sequences: int = Field(
        default=64, ge=1, description="Most sequences that hold blocks at once."
    )
    mock_prefill_us: int = Field(
        default=0, ge=0, description="Mock engine: microseconds a prompt token takes."
    )
    mock_decode_us: int = Field(
        default=0, ge=0, description="Mock engine: microseconds a step with decodes takes."
    )
