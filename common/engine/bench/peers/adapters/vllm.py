"""vLLM on the CPU, its engine in this process, bf16, prefix cache on."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

from common.engine.bench.workload import Progress

_CACHE_GB = 4
_CONTEXT_TOKENS = 4096
_SEQUENCES = 64


class Vllm:
    """Implements Peer."""

    caches_prefixes = True

    def __init__(self, model: str, threads: int) -> None:
        os.environ.update(
            VLLM_ENABLE_V1_MULTIPROCESSING="0",
            VLLM_CPU_KVCACHE_SPACE=str(_CACHE_GB),
            VLLM_CPU_OMP_THREADS_BIND=f"0-{threads - 1}",
            HF_HUB_OFFLINE="1",
        )
        self._lib: Any = importlib.import_module("vllm")
        kinds = importlib.import_module("vllm.sampling_params")
        self._delta = kinds.RequestOutputKind.DELTA
        self.about = f"vllm {self._lib.__version__} bfloat16"
        self._engine = self._lib.LLMEngine.from_engine_args(
            self._lib.EngineArgs(
                model=model,
                dtype="bfloat16",
                max_model_len=_CONTEXT_TOKENS,
                enable_prefix_caching=True,
                max_num_seqs=_SEQUENCES,
                disable_log_stats=True,
            )
        )
        self._adds = 0
        self._names: dict[str, str] = {}
        """By request id, which may never come twice."""

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        params = self._lib.SamplingParams(
            temperature=0.0,
            ignore_eos=True,
            max_tokens=tokens,
            detokenize=False,
            output_kind=self._delta,
        )
        self._adds += 1
        request = f"{self._adds}"
        self._names[request] = name
        self._engine.add_request(request, {"prompt_token_ids": prompt}, params)

    def drop(self, name: str) -> None:
        requests = [request for request, owner in self._names.items() if owner == name]
        self._engine.abort_request(requests)
        for request in requests:
            del self._names[request]

    def step(self) -> list[Progress]:
        return [
            self._progress(output)
            for output in self._engine.step()
            if _number(output) in self._names
        ]

    def _progress(self, output: Any) -> Progress:
        request = _number(output)
        tokens = sum(len(one.token_ids) for one in output.outputs)
        name = self._names.pop(request) if output.finished else self._names[request]
        return Progress(name, tokens, output.finished)


def _number(output: Any) -> str:
    """Some versions append a suffix of their own to the id they were given."""
    return str(output.request_id).split("-")[0]


def open_engine(model: str, threads: int, options: Mapping[str, str]) -> Vllm:
    """A Hugging Face folder."""
    return Vllm(model, threads)
