"""What a router can be told. The environment's TWINFLEET_ variables; read by app.py alone."""

from pydantic import Field, field_validator

from common.runtime.settings import ProcessSettings
from services.router.policies import POLICIES


class RouterSettings(ProcessSettings):
    policy: str = Field(
        default="kv_aware",
        description="Who chooses workers: kv_aware, least_loaded, random or round_robin.",
    )
    policy_seed: int = Field(
        default=0, description="Seed of the random policy, so that a run can be repeated."
    )
    queue_limit: int = Field(
        default=256, ge=1, description="Requests that may wait for room; further ones are refused."
    )
    max_sequences_per_worker: int = Field(
        default=64, ge=1, description="Sequences given to one worker at a time."
    )
    local_prefill_tokens: int = Field(
        default=256,
        ge=0,
        description="Up to this many uncached prompt tokens a decode worker that has the rest of "
        "the prompt computes itself.",
    )
    index_max_nodes: int = Field(
        default=500_000,
        ge=1,
        description="16-token units that the block index may hold (about 0.4 kB each).",
    )

    @field_validator("policy")
    @classmethod
    def _known(cls, policy: str) -> str:
        if policy not in POLICIES:
            raise ValueError(f"no such policy; there are {', '.join(POLICIES)}")
        return policy
