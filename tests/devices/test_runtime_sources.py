from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from tvm_fusionx.devices import runtime_sources as module
from tvm_fusionx.devices.runtime_sources import build_runtime, include_options, runtime_sources
from tvm_fusionx.errors import LinkError, MissingDependencyError


def test_every_pattern_finds_sources_in_the_installed_tvm() -> None:
    root = module.tvm_folder() / "src" / "runtime"
    for opencl in (False, True):
        patterns = module.SOURCES + module.OPENCL_SOURCES * opencl
        assert all(list(root.glob(pattern)) for pattern in patterns)
        sources = runtime_sources(opencl)
        assert len(set(sources)) == len(sources)
        assert any(path.name == "opencl_wrapper.cc" for path in sources) == opencl


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="Debian's g++ is absent")
def test_sources_become_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two small files of the many: one needs a header that the wheel keeps elsewhere.
    monkeypatch.setattr(module, "SOURCES", ("builtin_fp16.cc", "nvtx.cc"))
    output = tmp_path / "lib.so"
    build_runtime("g++", output, tmp_path, [], opencl=False)
    assert ctypes.CDLL(str(output)).__gnu_f2h_ieee
    with pytest.raises(LinkError):
        build_runtime("g++", output, tmp_path, ["-lno_such_library"], opencl=False)


def test_a_tvm_without_sources_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "tvm_folder", lambda: tmp_path)
    with pytest.raises(MissingDependencyError, match="its sources"):
        runtime_sources(opencl=False)
    with pytest.raises(MissingDependencyError, match="TVM's headers"):
        include_options()
