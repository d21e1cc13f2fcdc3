from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.contrib import cc
from tvm.runtime import Module

from tvm_fusionx._tvm.object_files import export_library


@pytest.fixture(name="module", scope="module")
def fixture_module() -> Any:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1)
    return tvm.build(te.create_prim_func([x, y]), target="llvm", name="add_one")


def test_a_library_computes_what_it_did(module: Any, tmp_path: Path) -> None:
    export_library(module, tmp_path / "lib.so", fcompile=cc.create_shared)
    loaded = tvm.runtime.load_module(str(tmp_path / "lib.so"))
    x, y = (tvm.nd.array(value) for value in ([1.0, 2, 3, 4], [0.0] * 4))
    x, y = tvm.nd.array(x.numpy().astype("float32")), tvm.nd.array(y.numpy().astype("float32"))
    loaded["add_one"](x, y)
    assert y.numpy().tolist() == [2, 3, 4, 5]


def test_a_full_disk_is_an_error_and_not_the_end(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = Module.save
    # Every write to it says that the disk is full.
    monkeypatch.setattr("tvm_fusionx._tvm.object_files.open", _full_for_objects, raising=False)
    with pytest.raises(OSError, match="No space left") as caught:
        export_library(module, tmp_path / "lib.so")
    assert caught.value.errno == errno.ENOSPC
    assert Module.save is save


def _full_for_objects(name: Any, mode: str) -> Any:
    return open("/dev/full" if str(name).endswith(".o") else name, mode)
