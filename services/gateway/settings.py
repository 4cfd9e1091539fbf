"""What a gateway is told: where to listen for HTTP, and whose text it speaks."""

from pathlib import Path

from pydantic import Field

from common.runtime.settings import EngineName, ProcessSettings


class GatewaySettings(ProcessSettings):
    model: str = Field(
        default="",
        description="GGUF file or Hugging Face folder whose tokenizer and chat template are read; "
        "empty: the default model.",
    )
    cache: Path = Field(
        default=Path("~/.cache/twinfleet"),
        description="Folder of models and of what is derived from them.",
    )
    engine: EngineName = Field(
        default="auto",
        description="Engine of the workers; with mock the built-in byte tokenizer is used.",
    )
    http_host: str = Field(default="127.0.0.1", description="Address the HTTP server binds.")
    http_port: int = Field(
        default=8000, ge=0, le=65535, description="Port of the HTTP server; 0 picks a free one."
    )
    request_limit_s: float = Field(
        default=600.0,
        ge=0,
        le=86_400,
        description="A request that takes longer is ended wherever it is; 0 sets no limit.",
    )
    client_stall_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="A client that takes no byte of its answer for so long is disconnected.",
    )
