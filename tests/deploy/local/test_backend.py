import pytest

from common.kernels.library import Level, NativeUnavailable
from deploy.local.backend import TORCH, Backend, backends_of


def env(engine: str, **settings: str) -> dict[str, str]:
    return {
        f"TWINFLEET_{key.upper()}": value for key, value in {"engine": engine, **settings}.items()
    }


def test_auto_tries_native_kernels_and_then_torch() -> None:
    assert backends_of(env("auto"), Level.AVX2) == (Backend("native", "bf16"), TORCH)
    assert backends_of(env("auto", arithmetic="int8"), Level.AMX) == (
        Backend("native", "int8"),
        TORCH,
    )


@pytest.mark.parametrize(
    ("settings", "best"),
    [({}, Level.NONE), ({"device": "cuda:0"}, Level.AMX), ({"cpu_level": "amx"}, Level.AVX512)],
)
def test_auto_is_torch_where_the_machine_or_the_settings_allow_no_native_kernels(
    settings: dict[str, str], best: Level
) -> None:
    assert backends_of(env("auto", **settings), best) == (TORCH,)
    with pytest.raises(NativeUnavailable):
        backends_of(env("native", **settings), best)


def test_one_that_is_named_is_not_replaced() -> None:
    assert backends_of(env("torch"), Level.AMX) == (TORCH,)
    assert backends_of(env("native", cpu_level="avx2"), Level.AMX) == (Backend("native", "bf16"),)
