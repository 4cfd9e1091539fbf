"""The adapter's own scheduler, over a library that writes down what it is asked to decode."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from common.engine.bench.peers.adapters.llama import open_engine
from common.engine.bench.peers.cases import QUICK, Case, run_case
from common.engine.bench.workload import Progress

VOCAB = 50


class FakeLlama(ModuleType):
    """Says token + 1. `decoded`: per call, (token, position, sequence, wanted) of each row."""

    __version__ = "0.0"

    def __init__(self) -> None:
        super().__init__("llama_cpp")
        self.decoded: list[list[tuple[int, int, int, bool]]] = []
        self.removed: list[int] = []
        self.params = SimpleNamespace()
        self.works = True

    def llama_backend_init(self) -> None: ...

    def llama_model_default_params(self) -> object:
        return object()

    def llama_model_load_from_file(self, path: bytes, params: object) -> bytes:
        return path

    def llama_context_default_params(self) -> SimpleNamespace:
        return self.params

    def llama_init_from_model(self, model: bytes, params: object) -> object | None:
        return object() if model == b"model.gguf" else None

    def llama_get_memory(self, context: object) -> str:
        return "memory"

    def llama_model_get_vocab(self, model: object) -> str:
        return "vocab"

    def llama_vocab_n_tokens(self, vocab: str) -> int:
        return VOCAB

    def llama_batch_init(self, tokens: int, embedding: int, sequences: int) -> SimpleNamespace:
        return SimpleNamespace(
            n_tokens=0,
            token=[0] * tokens,
            pos=[0] * tokens,
            n_seq_id=[0] * tokens,
            seq_id=[[0] for _ in range(tokens)],
            logits=[False] * tokens,
        )

    def llama_decode(self, context: object, batch: Any) -> int:
        rows = range(batch.n_tokens)
        self.decoded.append(
            [(batch.token[i], batch.pos[i], batch.seq_id[i][0], batch.logits[i]) for i in rows]
        )
        return 0 if self.works else 1

    def llama_get_logits_ith(self, context: object, row: int) -> Any:
        token, _, _, wanted = self.decoded[-1][row]
        assert wanted
        logits = (ctypes.c_float * VOCAB)()
        logits[(token + 1) % VOCAB] = 1.0
        return ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))

    def llama_memory_seq_rm(self, memory: str, sequence: int, start: int, stop: int) -> bool:
        assert (memory, start, stop) == ("memory", -1, -1)
        self.removed.append(sequence)
        return True


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> FakeLlama:
    fake = FakeLlama()
    monkeypatch.setitem(sys.modules, "llama_cpp", fake)
    return fake


def test_a_stream_is_prompt_then_its_own_tokens(lib: FakeLlama) -> None:
    engine = open_engine("model.gguf", 2, {})
    engine.add("a", [10, 11], 3)
    progress = [engine.step() for _ in range(3)]
    assert progress == [
        [Progress("a", 1, finished=False)],
        [Progress("a", 1, finished=False)],
        [Progress("a", 1, finished=True)],
    ]
    tokens = [[(token, position) for token, position, *_ in call] for call in lib.decoded]
    assert tokens == [[(10, 0), (11, 1)], [(12, 2)], [(13, 3)]]
    assert [row[3] for row in lib.decoded[0]] == [False, True]
    assert len(lib.removed) == 1
    assert (lib.params.n_threads, lib.params.n_threads_batch) == (2, 2)


def test_decodes_come_first_and_a_long_prompt_fills_the_batch(lib: FakeLlama) -> None:
    engine = open_engine("model.gguf", 1, {})
    engine.add("old", [1, 2], 100)
    engine.step()
    engine.add("long", [7] * 2050, 1)
    assert [part.name for part in engine.step()] == ["old"]
    assert len(lib.decoded[-1]) == 2048
    assert lib.decoded[-1][0][0] == 3
    assert [(part.name, part.finished) for part in engine.step()] == [
        ("old", False),
        ("long", True),
    ]
    assert len(lib.decoded[-1]) == 1 + 3
    sequences = {row[2] for row in lib.decoded[-1]}
    assert len(sequences) == 2


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.kind)
def test_it_can_do_every_case_but_the_warm_one(lib: FakeLlama, case: Case) -> None:
    value = run_case(open_engine("model.gguf", 1, {}), case, 1, VOCAB)
    assert (value is None) == (case.kind == "warm")


def test_sequences_are_used_again(lib: FakeLlama) -> None:
    engine = open_engine("model.gguf", 1, {})
    for number in range(100):
        engine.add(f"{number}", [1], 1)
        engine.step()
    assert len(lib.removed) == 100


def test_what_does_not_open_or_decode_is_an_error(lib: FakeLlama) -> None:
    with pytest.raises(MemoryError, match="other"):
        open_engine("other.gguf", 1, {})
    engine = open_engine("model.gguf", 1, {})
    engine.add("a", [1], 1)
    lib.works = False
    with pytest.raises(MemoryError, match="returned 1"):
        engine.step()
