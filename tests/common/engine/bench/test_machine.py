from pathlib import Path

from common.engine.bench.machine import load_average, machine


def test_the_processor_is_read_from_the_kernels_list(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 2GHz\nflags\t\t: fpu avx2 amx_tile sse\n"
    )
    found = machine(cpuinfo)
    assert found["processor"] == "Some CPU @ 2GHz"
    assert found["features"] == ["avx2", "amx_tile"]


def test_without_a_list_the_rest_is_still_known(tmp_path: Path) -> None:
    found = machine(tmp_path / "none")
    assert found["features"] == []
    assert isinstance(found["memory_bytes"], int)
    assert found["memory_bytes"] > 1 << 28


def test_the_load_is_a_number() -> None:
    assert load_average() >= 0
