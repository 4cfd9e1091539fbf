from pathlib import Path

import pytest

from tests.support.native_kernels import NativeKernels


@pytest.fixture(scope="session")
def units(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled units stay: their names are digests of what they were made of."""
    cache = pytestconfig.cache
    return tmp_path_factory.mktemp("units") if cache is None else cache.mkdir("native_units")


@pytest.fixture(scope="session", params=["avx2", "avx512", "amx"])
def native(request: pytest.FixtureRequest, units: Path) -> NativeKernels:
    """Each level that this machine has."""
    return NativeKernels(units, request.param)


@pytest.fixture(scope="session")
def avx2(units: Path) -> NativeKernels:
    """What the other levels must equal to the bit."""
    return NativeKernels(units, "avx2")
