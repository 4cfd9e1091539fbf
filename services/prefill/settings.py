"""What a prefill worker is told."""

from common.worker.settings import WorkerSettings


class PrefillSettings(WorkerSettings):
    """Nothing beyond what every worker is told."""
