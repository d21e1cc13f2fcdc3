from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.opencl_device import require_opencl
from tests.relay_modules import var
from tests.schedules.blocked_blocks import as_block
from tvm_fusionx.devices.opencl_programs import (
    keep_programs,
    measure_startup,
    opencl_module,
    programs_path,
    restore_programs,
)
from tvm_fusionx.lowering import lowering

TARGET = tvm.target.Target("opencl", host="llvm")


@pytest.fixture(scope="module")
def body() -> tvm.IRModule:
    require_opencl()
    return as_block(relay.nn.relu(var("x", 8, 16)) * relay.const(2.0))


def _built(body: tvm.IRModule) -> Any:
    with lowering(TARGET):
        return relay.build(body, TARGET)


def test_kept_programs_start_the_model_the_next_time(body: tvm.IRModule, tmp_path: Path) -> None:
    path = tmp_path / "programs.bin"
    first = opencl_module(_built(body).get_lib())
    assert not restore_programs(first, path)
    assert keep_programs(first, path) == path
    assert path.stat().st_size > 0
    assert restore_programs(opencl_module(_built(body).get_lib()), path)


def test_programs_that_the_driver_refuses_are_forgotten(body: tvm.IRModule, tmp_path: Path) -> None:
    path = tmp_path / "programs.bin"
    path.write_bytes(b"")
    assert not restore_programs(opencl_module(_built(body).get_lib()), path)
    assert not path.exists()


def test_a_start_is_told_in_parts(
    body: tvm.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {"x": np.ones((8, 16), "float32")}
    library = _built(body)
    monkeypatch.setattr(
        "tvm_fusionx.devices.opencl_programs.programs_path", lambda module: tmp_path / "kept.bin"
    )
    first = measure_startup(library, inputs)
    assert not first.from_cache
    assert "programs compiled" in str(first)
    second = measure_startup(_built(body), inputs)
    assert second.from_cache
    assert min(second.load_ms, second.first_run_ms, second.steady_ms) > 0
    assert not measure_startup(_built(body), inputs, cache=False).from_cache


def test_the_file_depends_on_the_source(body: tvm.IRModule) -> None:
    other = as_block(relay.nn.relu(var("x", 8, 16)) * relay.const(3.0))
    paths = {programs_path(opencl_module(_built(each).get_lib())) for each in (body, body, other)}
    assert len(paths) == 2
