"""The adapter over an engine that gives each request one token a step."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from common.engine.bench.peers.adapters.vllm import open_engine
from common.engine.bench.peers.cases import QUICK, Case, run_case
from common.engine.bench.workload import Progress


class LLMEngine:
    def __init__(self, arguments: Any) -> None:
        self.arguments = arguments
        self.left: dict[str, int] = {}
        self.seen: list[str] = []
        self.suffix = ""

    @classmethod
    def from_engine_args(cls, arguments: Any) -> "LLMEngine":
        return cls(arguments)

    def add_request(self, request: str, prompt: dict[str, list[int]], params: Any) -> None:
        assert request not in self.seen
        assert prompt["prompt_token_ids"]
        assert params.ignore_eos
        assert params.output_kind == "delta"
        self.seen.append(request)
        self.left[request] = params.max_tokens

    def abort_request(self, requests: list[str]) -> None:
        for request in requests:
            del self.left[request]

    def step(self) -> list[Any]:
        outputs = []
        for request in list(self.left):
            self.left[request] -= 1
            finished = self.left[request] == 0
            if finished:
                del self.left[request]
            outputs.append(
                SimpleNamespace(
                    request_id=request + self.suffix,
                    outputs=[SimpleNamespace(token_ids=[7])],
                    finished=finished,
                )
            )
        return outputs


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm, kinds = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    vars(vllm).update(
        __version__="9.9",
        LLMEngine=LLMEngine,
        EngineArgs=SimpleNamespace,
        SamplingParams=SimpleNamespace,
    )
    vars(kinds).update(RequestOutputKind=SimpleNamespace(DELTA="delta"))
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", kinds)
    monkeypatch.setattr(os, "environ", dict(os.environ))


def test_a_name_may_come_again_and_a_suffix_is_ignored() -> None:
    engine = open_engine("folder", 2, {})
    engine._engine.suffix = "-abc"
    for _ in range(2):
        engine.add("a", [1, 2], 2)
        assert engine.step() == [Progress("a", 1, finished=False)]
        assert engine.step() == [Progress("a", 1, finished=True)]
    assert engine.step() == []


def test_it_computes_in_this_process_on_the_cores_it_may_use() -> None:
    engine = open_engine("folder", 2, {})
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert engine._engine.arguments.model == "folder"
    assert engine.about == "vllm 9.9 bfloat16"


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.kind)
def test_it_can_do_every_case(case: Case) -> None:
    engine = open_engine("folder", 1, {})
    assert run_case(engine, case, 1, 100) is not None
    assert engine._engine.left == {}
