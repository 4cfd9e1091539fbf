"""The fastest engine that this machine has for this model."""

import structlog

from common.kernels.library import NativeUnavailable
from common.worker import native_engine
from common.worker.engines import Loaded, load_named
from common.worker.settings import WorkerSettings

log = structlog.get_logger()


def load(settings: WorkerSettings) -> Loaded:
    """Native kernels, or torch where they cannot run: torch is imported only then."""
    try:
        return native_engine.load(settings)
    except NativeUnavailable as error:
        log.warning("native_kernels_unavailable", reason=str(error), engine="torch")
    return load_named("torch", settings)
