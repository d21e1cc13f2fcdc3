from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.runtime import pool_library as module
from tvm_fusionx.runtime.pool_library import (
    COMPILERS,
    SOURCES,
    build_pool,
    built_path,
    library_name,
    pool_library,
    remove_pool,
    why_no_pool,
)

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, COMPILERS)), reason="no C++ compiler (Debian's g++)"
)


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "PACKAGED", tmp_path / "packaged")
    return tmp_path


@needs_compiler
def test_it_is_built_once_and_removed_without_a_trace(folder: Path) -> None:
    with pytest.raises(MissingDependencyError, match="fusionx pool build"):
        pool_library(build=False)
    path = pool_library()
    assert path == built_path()
    assert path.is_relative_to(folder)
    built_at = path.stat().st_mtime_ns
    assert pool_library() == path
    assert path.stat().st_mtime_ns == built_at
    assert remove_pool() == path
    assert remove_pool() is None
    assert not path.parent.exists()


@needs_compiler
def test_a_library_that_was_installed_comes_first_unless_it_cannot_be_loaded(folder: Path) -> None:
    packaged = folder / "packaged" / library_name()
    packaged.parent.mkdir()
    packaged.write_bytes(b"\x7fELF of another system")
    built = pool_library()
    assert built == built_path()
    shutil.copy(built, packaged.with_suffix(".new"))
    packaged.with_suffix(".new").replace(packaged)
    assert pool_library(build=False) == packaged


def test_without_a_compiler_it_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(MissingDependencyError, match=r"apt-get install g\+\+"):
        build_pool()
    assert "TVM's pool" in (why_no_pool() or "")
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    assert "no-such-compiler" in (why_no_pool() or "")


def test_a_failed_build_leaves_nothing_and_shows_the_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = folder / "fails.py"
    fails.write_text("import sys; sys.exit('pool.cc:1: error: no such thing')")
    monkeypatch.setenv("CXX", f"{sys.executable} {fails}")
    with pytest.raises(MissingDependencyError, match="no such thing"):
        build_pool()
    assert list(built_path().parent.iterdir()) == []


@needs_compiler
def test_the_pool_alone_needs_neither_tvm_nor_the_libraries_of_cxx(tmp_path: Path) -> None:
    program = tmp_path / "program.c"
    program.write_text(
        '#include "pool.h"\n'
        "static int add(int id, FusionXGroup* group, void* sum) {\n"
        "  return ((int*)sum)[id] = id + group->num_task, 0;\n}\n"
        "int main(void) {\n  int sums[9] = {0};\n"
        "  if (fusionx_parallel_launch(add, sums, 9)) return 1;\n"
        "  for (int id = 0; id < 9; ++id) if (sums[id] != id + 9) return 2;\n"
        "  return fusionx_pool_stop();\n}\n"
    )
    words = ["g++", "-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-c"]
    subprocess.run([*words, SOURCES / "pool.cc", "-o", tmp_path / "pool.o"], check=True)
    compiled = [program, tmp_path / "pool.o", f"-I{SOURCES}", "-pthread"]
    subprocess.run(["gcc", *compiled, "-o", tmp_path / "program"], check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0


@needs_compiler
def test_the_library_has_a_plain_c_interface() -> None:
    functions = ctypes.CDLL(str(pool_library()))
    for header in ("pool.h", "tvm_pool.h"):
        text = (SOURCES / header).read_text(encoding="utf-8")
        names = {
            word.split("(")[0]
            for word in text.split()
            if word.startswith("fusionx_") and "(" in word
        }
        assert names
        for name in names:
            assert hasattr(functions, name)
