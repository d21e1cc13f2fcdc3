"""A value bound within a vectorised loop keeps the loop's variable, or becomes a vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import te, tir
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.schedules.stored_vectors import stored_widths
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.undivided_lets import leave_undivided_lets

ROWS, COLUMNS = 5, 8


def _least_places(padded: int) -> Any:
    """Return a function that finds the least of each column, the last columns being 2; vectors."""
    x = te.placeholder((ROWS, COLUMNS - padded), name="x")
    wide = te.compute(
        (ROWS, COLUMNS),
        lambda i, j: (
            tir.if_then_else(j < COLUMNS - padded, x[i, j], tir.const(2.0, "float32"))
            if padded
            else x[i, j]
        ),
    )
    place = tvm.topi.argmin(wide, axis=0)
    sch = tir.Schedule(te.create_prim_func([x, place]))
    if padded:
        sch.compute_inline(sch.get_block(wide.op.name))
    reduction = sch.get_block(f"{wide.op.name}_red_temp")
    sch.reorder(*reversed(sch.get_loops(reduction)))
    sch.vectorize(sch.get_loops(reduction)[-1])
    sch.decompose_reduction(reduction, sch.get_loops(reduction)[0])
    return sch.mod["main"]


@pytest.mark.parametrize(("padded", "stored"), [(0, 8), (1, 1)])
def test_loops_stay_vectors_where_all_that_they_bind_can_be_one(padded: int, stored: int) -> None:
    with pass_context(tvm.target.Target("llvm")):
        library = tvm.build(_least_places(padded), "llvm", name="main")
    assert stored in stored_widths(_least_places(padded), leave_undivided_lets())
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS - padded)).astype("float32")
    places = tvm.nd.empty((COLUMNS,), "int32")
    library["main"](tvm.nd.array(x), places)
    wide = np.pad(x, ((0, 0), (0, padded)), constant_values=2)
    np.testing.assert_array_equal(places.numpy(), wide.argmin(0))


@pytest.mark.parametrize("kind", ["ArgMin", "ArgMax"])
@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_least_and_largest_places_of_padded_rows_are_onnx_runtimes(kind: str, element: int) -> None:
    model = _padded_places(kind, element)
    x = np.random.default_rng(1).standard_normal((4, 7))
    x = x.astype(helper.tensor_dtype_to_np_dtype(element))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    mod, params = fx.from_onnx(model)
    library = fx.build(mod, "llvm -mcpu=x86-64-v3", params=params)
    graph = graph_executor.GraphModule(library["default"](tvm.cpu()))
    graph.run(x=x)
    np.testing.assert_array_equal(graph.get_output(0).numpy(), session.run(None, {"x": x})[0])


def _padded_places(kind: str, element: int) -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Pad", ["x", "pads", "value"], ["wide"]),
            helper.make_node(kind, ["wide"], ["y"], axis=0, select_last_index=1),
        ],
        "padded",
        [helper.make_tensor_value_info("x", element, [4, 7])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, 8])],
        [
            helper.make_tensor("pads", TensorProto.INT64, [4], [2, 0, 1, 1]),
            helper.make_tensor("value", element, [], [-1.5]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
