"""The adapter over a pipeline that gives each request one token a step."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from common.engine.bench.peers.adapters.openvino import open_engine
from common.engine.bench.peers.cases import QUICK, Case, run_case
from common.engine.bench.workload import Progress

RUNNING, FINISHED = "running", "finished"


class Handle:
    def __init__(self, tokens: int) -> None:
        self.left = tokens
        self.unread = 0
        self.cancelled = False

    def can_read(self) -> bool:
        return self.unread > 0

    def read(self) -> dict[int, Any]:
        self.unread -= 1
        return {0: SimpleNamespace(generated_ids=[5])}

    def get_status(self) -> str:
        return RUNNING if self.left else FINISHED

    def cancel(self) -> None:
        self.cancelled = True


class Pipeline:
    def __init__(self, model: str, scheduler: Any, device: str, properties: dict[str, Any]) -> None:
        self.opened = (model, device, properties)
        self.scheduler = scheduler
        self.handles: list[Handle] = []
        self.ids: list[int] = []

    def add_request(self, number: int, ids: Any, config: Any) -> Handle:
        assert number not in self.ids
        assert ids.ndim == 2
        assert config.max_new_tokens == config.min_new_tokens
        assert config.ignore_eos
        assert not config.do_sample
        self.ids.append(number)
        self.handles.append(Handle(config.max_new_tokens))
        return self.handles[-1]

    def step(self) -> None:
        for handle in self.handles:
            if handle.left and not handle.cancelled:
                handle.left -= 1
                handle.unread += 1


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    genai = ModuleType("openvino_genai")
    vars(genai).update(
        __version__="9.9",
        SchedulerConfig=SimpleNamespace,
        GenerationConfig=SimpleNamespace,
        GenerationStatus=SimpleNamespace(RUNNING=RUNNING),
        ContinuousBatchingPipeline=Pipeline,
    )
    openvino = ModuleType("openvino")
    vars(openvino).update(Tensor=lambda array: array)
    monkeypatch.setitem(sys.modules, "openvino_genai", genai)
    monkeypatch.setitem(sys.modules, "openvino", openvino)


def test_a_stream_is_read_until_it_is_finished() -> None:
    engine = open_engine("folder", 2, {})
    engine.add("a", [1, 2], 2)
    assert engine.step() == [Progress("a", 1, finished=False)]
    assert engine.step() == [Progress("a", 1, finished=True)]
    assert engine.step() == []


def test_threads_and_precision_are_set() -> None:
    engine = open_engine("folder", 2, {"precision": "f32"})
    model, device, properties = engine._pipe.opened
    assert (model, device) == ("folder", "CPU")
    assert properties["INFERENCE_NUM_THREADS"] == 2
    assert properties["INFERENCE_PRECISION_HINT"] == "f32"
    assert engine._pipe.scheduler.enable_prefix_caching
    assert engine.about == "openvino-genai 9.9 f32"


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.kind)
def test_it_can_do_every_case(case: Case) -> None:
    engine = open_engine("folder", 1, {})
    assert run_case(engine, case, 1, 100) is not None
    assert engine._handles == {}
