from pathlib import Path

import pytest

from common.engine.bench.peers.adapters import ours
from common.engine.bench.peers.cases import QUICK, Case, run_case
from tests.support.bench_rig import TINY


@pytest.fixture(scope="module")
def engine(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ours.Ours:
    options = {
        "engine": "torch",
        "arithmetic": "fp32",
        "cache": str(tmp_path_factory.mktemp("cache")),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "FULL", TINY)
        return ours.open_engine(str(tiny_folder), 1, options)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.kind)
def test_it_can_do_every_case(engine: ours.Ours, case: Case) -> None:
    value = run_case(engine, case, 1, 200)
    assert value is not None
    assert value > 0


def test_a_warm_prompt_was_cached(engine: ours.Ours) -> None:
    run_case(engine, Case("warm", 70), 2, 200)
    assert engine.cached_tokens == 64
