"""What a kvstore can be told. The environment's TWINFLEET_ variables; read by app.py alone."""

from pydantic import Field, field_validator

from common.runtime.settings import ProcessSettings
from common.store.arena import PAGE_BYTES
from services.kvstore.eviction import EVICTIONS


class KvStoreSettings(ProcessSettings):
    arena_bytes: int = Field(
        default=512 * 1024 * 1024,
        ge=PAGE_BYTES,
        description="Host memory for blocks. All of it is touched when the arena is made.",
    )
    slot_bytes: int = Field(
        default=0,
        ge=0,
        description="Bytes of the largest block that fits; 0: those of the first block offered, "
        "and the arena is made then.",
    )
    eviction: str = Field(default="lru", description="Which block makes room for a new one: lru.")

    @field_validator("eviction")
    @classmethod
    def _known(cls, eviction: str) -> str:
        if eviction not in EVICTIONS:
            raise ValueError(f"no such rule; there are {', '.join(EVICTIONS)}")
        return eviction
