"""llama.cpp through llama-cpp-python's C interface, with a small scheduler of its own.

The library decodes batches and leaves it to others what is in them: each step here has one token of
every stream that runs, then prompts in order of arrival up to the batch size, as its server does.
Every stream has a KV stream of its own, which is what its own batch benchmark measures.
"""

import importlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.engine.bench.workload import Progress

_BATCH_TOKENS = 2048
_SEQUENCES = 33
_SEQUENCE_TOKENS = 2304
_FLASH_ATTENTION = 1


@dataclass
class _Stream:
    name: str
    waiting: deque[int]
    """Tokens that were not decoded yet."""
    left: int
    sequence: int
    position: int = 0


class Llama:
    """Implements Peer."""

    caches_prefixes = False

    def __init__(self, model: str, threads: int) -> None:
        self._lib: Any = importlib.import_module("llama_cpp")
        lib = self._lib
        self.about = f"llama-cpp-python {lib.__version__}"
        lib.llama_backend_init()
        self._model = lib.llama_model_load_from_file(
            model.encode(), lib.llama_model_default_params()
        )
        params = lib.llama_context_default_params()
        params.n_ctx = _SEQUENCES * _SEQUENCE_TOKENS
        params.n_batch = _BATCH_TOKENS
        params.n_seq_max = _SEQUENCES
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = _FLASH_ATTENTION
        self._context = lib.llama_init_from_model(self._model, params)
        if not self._context:
            raise MemoryError(f"llama.cpp could not open {model}")
        self._memory = lib.llama_get_memory(self._context)
        self._vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(self._model))
        self._batch = lib.llama_batch_init(_BATCH_TOKENS, 0, 1)
        self._free = list(range(_SEQUENCES))
        self._streams: dict[str, _Stream] = {}

    def add(self, name: str, prompt: list[int], tokens: int) -> None:
        self._streams[name] = _Stream(name, deque(prompt), tokens, self._free.pop())

    def drop(self, name: str) -> None:
        stream = self._streams.pop(name)
        self._lib.llama_memory_seq_rm(self._memory, stream.sequence, -1, -1)
        self._free.append(stream.sequence)

    def step(self) -> list[Progress]:
        drawing: list[tuple[_Stream, int]] = []
        self._batch.n_tokens = 0
        # Those that decode have one token waiting; a stable sort keeps the order of arrival.
        for stream in sorted(self._streams.values(), key=lambda one: len(one.waiting) > 1):
            self._take(stream)
            if not stream.waiting:
                drawing.append((stream, self._batch.n_tokens - 1))
        failed = self._lib.llama_decode(self._context, self._batch)
        if failed:
            raise MemoryError(f"llama_decode returned {failed}")
        return [self._draw(stream, row) for stream, row in drawing]

    def _take(self, stream: _Stream) -> None:
        """As many of its tokens as there is room for."""
        batch = self._batch
        while stream.waiting and batch.n_tokens < _BATCH_TOKENS:
            at = batch.n_tokens
            batch.token[at] = stream.waiting.popleft()
            batch.pos[at] = stream.position
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = stream.sequence
            batch.logits[at] = not stream.waiting
            stream.position += 1
            batch.n_tokens += 1

    def _draw(self, stream: _Stream, row: int) -> Progress:
        logits = self._lib.llama_get_logits_ith(self._context, row)
        stream.waiting.append(int(np.ctypeslib.as_array(logits, (self._vocab,)).argmax()))
        stream.left -= 1
        finished = stream.left == 0
        if finished:
            self.drop(stream.name)
        return Progress(stream.name, 1, finished)


def open_engine(model: str, threads: int, options: Mapping[str, str]) -> Llama:
    """A GGUF file."""
    return Llama(model, threads)
