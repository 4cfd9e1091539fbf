"""A ModelConfig as text and back, for files of our own.

Not a format for others: a text written by another version that does not fit is simply not read.
"""

import json
from dataclasses import asdict
from typing import Any

from common.checkpoint.config import (
    FrequencyDivisors,
    LinearScaling,
    Llama3Scaling,
    ModelConfig,
    RopeScaling,
)
from common.checkpoint.errors import CheckpointError


def config_to_json(config: ModelConfig) -> str:
    scaling = config.rope_scaling
    kind = None if scaling is None else type(scaling).__name__
    return json.dumps({**asdict(config), "rope_scaling_kind": kind})


def config_from_json(text: str) -> ModelConfig:
    try:
        values = json.loads(text)
        kind, scaling = values.pop("rope_scaling_kind"), values.pop("rope_scaling")
        eos = tuple(values.pop("eos_token_ids"))
        return ModelConfig(**values, eos_token_ids=eos, rope_scaling=_scaling(kind, scaling))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"not a config of this version: {error!r}") from error


def _scaling(kind: str | None, values: Any) -> RopeScaling | None:
    match kind:
        case None:
            return None
        case "LinearScaling":
            return LinearScaling(**values)
        case "Llama3Scaling":
            return Llama3Scaling(**values)
        case "FrequencyDivisors":
            return FrequencyDivisors(tuple(values["divisors"]))
        case _:
            raise KeyError(kind)
