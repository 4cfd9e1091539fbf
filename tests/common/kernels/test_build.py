"""Building: once for the sources and flags there are, and no failure where it cannot be done."""

import ctypes
import os
import shutil
import sys
from pathlib import Path

import pytest

from common.kernels import build as module
from common.kernels.build import BuildFailed, build, built_library, compiler, main


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small units in place of the kernels."""
    folder, built = tmp_path / "native", tmp_path / "built"
    folder.mkdir()
    built.mkdir()
    (folder / "one.cpp").write_text('extern "C" int one() { return NUMBER; }\n')
    (folder / "two.cpp").write_text('extern "C" int two() { return 2; }\n')
    monkeypatch.setattr(module, "SOURCES", folder)
    monkeypatch.setattr(module, "BUILT", built)
    monkeypatch.setattr(module, "UNITS", {"one": ("one.cpp", "-DNUMBER=1"), "two": ("two.cpp",)})
    return folder


@pytest.fixture
def program() -> str:
    found = compiler()
    if found is None:
        pytest.skip("no C++ compiler")
    return found


def fake_compiler(folder: Path, script: str) -> str:
    """A program that stands for a compiler, written in Python."""
    path = folder / "cxx"
    path.write_text(f"#!{sys.executable}\nimport sys, pathlib\n{script}\n")
    path.chmod(0o755)
    return str(path)


WRITES = "pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_bytes(b'made')"


def test_without_a_compiler_it_says_so_and_does_not_fail(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main() == 0
    assert "No C++ compiler" in capsys.readouterr().err
    assert not built_library().exists()


def test_a_compiler_that_refuses_is_quoted_and_nothing_is_left(
    sources: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = fake_compiler(tmp_path, "sys.exit('error: no such flag')")
    with pytest.raises(BuildFailed, match="error: no such flag"):
        build(broken)
    monkeypatch.setenv("CXX", broken)
    assert main() == 0
    said = capsys.readouterr().err
    assert "error: no such flag" in said
    assert "workers will use torch" in said
    assert not list(built_library().parent.glob("*.so"))


def test_a_silent_failure_is_named(sources: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="ended with 3"):
        build(fake_compiler(tmp_path, "sys.exit(3)"))


def test_it_compiles_and_links_every_unit(sources: Path, program: str) -> None:
    library = ctypes.CDLL(str(build(program)))
    # Hidden, as the kernels' are unless they ask for more.
    assert not hasattr(library, "one")
    shown = ctypes.CDLL(str(build(program, ("-fvisibility=default",))))
    assert (shown.one(), shown.two()) == (1, 2)


def test_a_real_compile_error_is_the_compilers_own(sources: Path, program: str) -> None:
    (sources / "two.cpp").write_text("int two( {")
    with pytest.raises(BuildFailed, match=r"two\.cpp"):
        build(program)


def test_it_is_built_once(sources: Path, tmp_path: Path) -> None:
    place = build(fake_compiler(tmp_path, WRITES))
    assert place.read_bytes() == b"made"
    assert build("/no/such/compiler") == place


def test_other_sources_or_flags_are_another_library(
    sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = build(fake_compiler(tmp_path, WRITES))
    assert built_library(("-g3",)) != place
    (sources / "one.cpp").write_text("// changed\n")
    assert built_library() != place
    assert not built_library().exists()
    with monkeypatch.context() as changed:
        changed.setattr(module, "FLAGS", (*module.FLAGS, "-O1"))
        other = built_library()
    assert other not in (place, built_library())


def test_a_compiler_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fake_compiler(tmp_path, "")
    monkeypatch.setenv("CXX", named)
    assert compiler() == named
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    assert compiler() is None
    monkeypatch.delenv("CXX")
    for name in ("clang++", "g++"):
        os.symlink(named, tmp_path / name)
        monkeypatch.setenv("PATH", str(tmp_path))
        assert compiler() == str(tmp_path / name)
