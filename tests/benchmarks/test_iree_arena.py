from __future__ import annotations

from pathlib import Path
from types import ModuleType

import onnx
import pytest
from onnx import TensorProto, helper

from tests.benchmarks.scripts import script
from tvm_fusionx.errors import MissingDependencyError, ModelError

PLANNED = """
  util.initializer {
    %c512 = arith.constant 512 : index
    %a, %t = stream.resource.alloca uninitialized => !stream.resource<transient>{%c512} => !t
  }
  util.func private @main$async() {
    %c4000 = arith.constant 4000 : index
    %c100_1 = arith.constant 100 : index
    %r, %t0 = stream.resource.alloca uninitialized => !stream.resource<external>{%c4000} => !t
    %s, %t1 = stream.resource.alloca uninitialized => !stream.resource<transient>{%c100_1} => !t
    %2 = stream.resource.dealloca => %s : !stream.resource<transient>{%c100_1} => !t
    %u, %t2 = stream.resource.alloca uninitialized => !stream.resource<transient>{%c100_1} => !t
  }
"""


@pytest.fixture(scope="module", name="iree_arena")
def fixture_iree_arena() -> ModuleType:
    return script("iree_arena")


def test_what_is_freed_counts_no_more_and_constants_never(iree_arena: ModuleType) -> None:
    assert iree_arena.peak_bytes(PLANNED) == 4100


def test_sizes_that_are_not_known_are_told(iree_arena: ModuleType) -> None:
    with pytest.raises(ModelError, match="a size %c4000 that is known when it runs"):
        iree_arena.peak_bytes(PLANNED.replace("%c4000 = arith.constant 4000", "%x = foo 1"))
    with pytest.raises(ModelError, match="found none of it"):
        iree_arena.peak_bytes("module {}")


def test_a_python_without_iree_is_named(iree_arena: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="an environment that has it; found no"):
        iree_arena.find_iree(tmp_path / "python")
    for name in ("iree-import-onnx", "iree-compile"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    with pytest.raises(MissingDependencyError, match="does not start, as without the package onnx"):
        iree_arena.find_iree(tmp_path / "python")


def test_inputs_get_their_shapes(iree_arena: ModuleType, tmp_path: Path) -> None:
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(
        helper.make_model(helper.make_graph([node], "g", [port], [result])), tmp_path / "a.onnx"
    )
    made = iree_arena.with_fixed_inputs(tmp_path / "a.onnx", {"x": (2, 3)}, tmp_path / "b.onnx")
    (read,) = onnx.load(str(made)).graph.input
    assert [each.dim_value for each in read.type.tensor_type.shape.dim] == [2, 3]
