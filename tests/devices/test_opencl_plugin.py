from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from tests.opencl_device import require_opencl
from tvm_fusionx.devices import opencl_plugin
from tvm_fusionx.devices.opencl_plugin import (
    build_opencl,
    is_opencl_loaded,
    load_opencl,
    opencl_library_path,
    remove_opencl,
)
from tvm_fusionx.errors import MissingDependencyError

# Stands in for a C++ compiler: leaves a file where -o says, and its own words beside it.
FAKE_COMPILER = """
import pathlib, sys
words = sys.argv[1:]
pathlib.Path(words[words.index("-o") + 1]).write_text(" ".join(words))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(tmp_path))
    monkeypatch.setattr(opencl_plugin, "_loader", lambda: "libOpenCL.so.1")
    script = tmp_path / "compiler.py"
    script.write_text(FAKE_COMPILER)
    monkeypatch.setenv("CXX", f"{sys.executable} {script}")
    return tmp_path


def test_a_library_is_built_once_and_removed_without_a_trace(folder: Path) -> None:
    path = opencl_library_path()
    assert path.is_relative_to(folder)
    assert tvm.__version__ in path.name
    assert build_opencl() == path
    assert "plugin.cc" in path.read_text()
    path.write_text("as it was")
    assert build_opencl().read_text() == "as it was"
    assert "plugin.cc" in build_opencl(again=True).read_text()
    (path.parent / "programs-of-a-model.bin").touch()
    assert remove_opencl() == path
    assert remove_opencl() is None
    assert not path.parent.exists()


def test_a_failed_build_leaves_nothing_and_shows_the_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = folder / "fails.py"
    fails.write_text("import sys; sys.exit('plugin.cc:1: error: no such thing')")
    monkeypatch.setenv("CXX", f"{sys.executable} {fails}")
    with pytest.raises(MissingDependencyError, match="no such thing"):
        build_opencl()
    assert list(opencl_library_path().parent.iterdir()) == []


def test_a_missing_compiler_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingDependencyError, match=r"no-such-compiler.*apt-get install g\+\+"):
        build_opencl()


def test_a_missing_loader_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TVM_FUSIONX_CACHE", str(folder))
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    with pytest.raises(MissingDependencyError, match="apt-get install ocl-icd-libopencl1"):
        build_opencl()


def test_missing_sources_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_plugin, "tvm_folder", lambda: folder)
    with pytest.raises(MissingDependencyError, match="opencl_device_api"):
        build_opencl()


def test_what_was_not_built_is_not_loaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_plugin, "_is_built_in", lambda: False)
    with pytest.raises(MissingDependencyError, match="fusionx opencl build"):
        load_opencl()


def test_a_damaged_library_says_how_to_build_it_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencl_plugin, "_is_built_in", lambda: False)
    build_opencl()
    with pytest.raises(MissingDependencyError, match="fusionx opencl build --again"):
        load_opencl()


def test_a_machine_without_a_driver_is_told_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDevice:
        exist = False

    monkeypatch.setattr(opencl_plugin, "_is_built_in", lambda: False)
    monkeypatch.setitem(opencl_plugin._loaded, opencl_library_path(), object())
    monkeypatch.setattr(tvm, "opencl", lambda index: NoDevice())
    with pytest.raises(MissingDependencyError, match="apt-get install pocl-opencl-icd"):
        load_opencl()


@pytest.mark.slow
def test_importing_loads_nothing() -> None:
    code = (
        "import tvm_fusionx.devices.opencl_plugin as plugin; "
        "raise SystemExit(int(plugin.is_opencl_loaded()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_kernel_runs_after_loading_twice() -> None:
    require_opencl()
    assert load_opencl() == load_opencl()
    assert is_opencl_loaded()
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] * 2.0)
    schedule = te.create_schedule(y.op)
    outer, inner = schedule[y].split(y.op.axis[0], 16)
    schedule[y].bind(outer, te.thread_axis("blockIdx.x"))
    schedule[y].bind(inner, te.thread_axis("threadIdx.x"))
    function = tvm.build(schedule, [x, y], tvm.target.Target("opencl", host="llvm"))
    data = np.arange(64, dtype="float32")
    result = tvm.nd.empty((64,), device=tvm.opencl(0))
    function(tvm.nd.array(data, tvm.opencl(0)), result)
    np.testing.assert_array_equal(result.numpy(), data * 2)


def test_a_kernel_is_not_declared_in_front_of_others() -> None:
    require_opencl()
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: x[i] * 2.0, name="y")
    z = te.compute((64,), lambda i: y[i] + 1.0, name="z")
    schedule = te.create_schedule(z.op)
    for stage in (y, z):
        schedule[stage].bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))
    function = tvm.build(schedule, [x, z], tvm.target.Target("opencl", host="llvm"))
    source = function.imported_modules[0].get_source()
    assert source.count("// Function: ") == 2
    assert source.count("__kernel void ") == 2
    result = tvm.nd.empty((64,), device=tvm.opencl(0))
    function(tvm.nd.array(np.ones(64, "float32"), tvm.opencl(0)), result)
    np.testing.assert_array_equal(result.numpy(), np.full(64, 3.0, "float32"))
