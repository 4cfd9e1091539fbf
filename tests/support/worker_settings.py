"""Settings of a worker process, complete without an environment."""

from pathlib import Path

from common.worker.settings import WorkerSettings


def worker_settings(
    run_dir: Path, kind: type[WorkerSettings] = WorkerSettings, **changes: object
) -> WorkerSettings:
    fields: dict[str, object] = {
        "name": "decode-0",
        "run_dir": run_dir,
        "bind_address": f"ipc://{run_dir}/decode-0",
        "router_address": f"ipc://{run_dir}/router-0",
        "engine": "mock",
        "kv_pool_bytes": 1 << 16,
        "cache": run_dir / "cache",
    }
    return kind.model_validate(fields | changes)
