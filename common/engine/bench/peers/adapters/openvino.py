"""OpenVINO GenAI's continuous batching, prefix cache on, bf16 unless an option says otherwise."""

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.engine.bench.workload import Progress

_CACHE_GB = 2
_STEP_TOKENS = 2048
_SEQUENCES = 64


class OpenVino:
    """Implements Peer."""

    caches_prefixes = True

    def __init__(self, model: str, threads: int, precision: str) -> None:
        self._openvino: Any = importlib.import_module("openvino")
        self._lib: Any = importlib.import_module("openvino_genai")
        self.about = f"openvino-genai {self._lib.__version__} {precision}"
        scheduler = self._lib.SchedulerConfig()
        scheduler.cache_size = _CACHE_GB
        scheduler.enable_prefix_caching = True
        scheduler.max_num_batched_tokens = _STEP_TOKENS
        scheduler.max_num_seqs = _SEQUENCES
        properties = {
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": precision,
            "ENABLE_CPU_PINNING": False,
        }
        self._pipe = self._lib.ContinuousBatchingPipeline(model, scheduler, "CPU", properties)
        self._handles: dict[str, Any] = {}
        self._requests = 0

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        config = self._lib.GenerationConfig()
        config.max_new_tokens = config.min_new_tokens = tokens
        config.ignore_eos = True
        config.do_sample = False
        ids = self._openvino.Tensor(np.array([prompt], dtype=np.int64))
        self._requests += 1
        self._handles[name] = self._pipe.add_request(self._requests, ids, config)

    def drop(self, name: str) -> None:
        self._handles.pop(name).cancel()

    def step(self) -> list[Progress]:
        self._pipe.step()
        progress = [self._progress(name, handle) for name, handle in self._handles.items()]
        for part in progress:
            if part.finished:
                del self._handles[part.name]
        return progress

    def _progress(self, name: str, handle: Any) -> Progress:
        tokens = 0
        while handle.can_read():
            tokens += sum(len(output.generated_ids) for output in handle.read().values())
        running = handle.get_status() == self._lib.GenerationStatus.RUNNING
        return Progress(name, tokens, not running)


def open_engine(model: str, threads: int, options: Mapping[str, str]) -> OpenVino:
    """A folder that optimum exported. Options: precision."""
    return OpenVino(model, threads, options.get("precision", "bf16"))
