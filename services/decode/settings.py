"""What a decode worker is told."""

from common.worker.settings import WorkerSettings


class DecodeSettings(WorkerSettings):
    """Nothing beyond what every worker is told."""
