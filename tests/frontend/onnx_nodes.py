"""Check ONNX nodes, many at a time, against ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

from tvm_fusionx._tvm import cures
from tvm_fusionx.frontend import from_onnx

OPSET = 21
# Reassociating float32 laws, relative to the largest output.
TOLERANCE = 1e-5
# What is tested is the import, so nothing is spent on fast code: LLVM optimises nothing, and the
# one pass that rewrites operators at level 0, inferring types anew for each of its patterns, is
# left out.
QUICK_TARGET = "llvm -opt-level=0"
QUICK_CONTEXT = {"opt_level": 0, "disabled_pass": ["SimplifyExpr"]}


@dataclass(frozen=True)
class Case:
    """One node, its inputs, and which of them are known while compiling."""

    op_type: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    outputs: int = 1
    expected: Sequence[Any] | None = None
    """What to expect where ONNX's reference evaluator is slow or wrong."""

    domain: str = ""


def floats(*shape: int, seed: int = 0) -> Any:
    """Return float32 numbers of both signs."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def ints(*values: int, dtype: str = "int64") -> Any:
    return np.asarray(values, dtype)


def model_of(cases: Sequence[Case], opset: int = OPSET) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return one model that runs all cases side by side, and its inputs."""
    nodes, inputs, outputs, initializers, feeds = [], [], [], [], {}
    for number, case in enumerate(cases):
        names = []
        for position, array in enumerate(case.inputs):
            if array is None:
                names.append("")
                continue
            name = f"case{number}_input{position}"
            names.append(name)
            array = np.asarray(array)
            if position in case.known:
                initializers.append(numpy_helper.from_array(array, name))
            else:
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(name, element, array.shape))
                feeds[name] = array
        made = [f"case{number}_output{i}" for i in range(case.outputs)]
        nodes.append(
            helper.make_node(
                case.op_type,
                names,
                made,
                name=f"case{number}",
                domain=case.domain,
                **case.attributes,
            )
        )
        outputs.extend(helper.make_empty_tensor_value_info(name) for name in made)
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def run(
    model: onnx.ModelProto, feeds: Mapping[str, Any], constants: Mapping[str, Any] | None = None
) -> list[Any]:
    """Return the outputs of `model`, compiled by TVM without optimization."""
    mod, params = from_onnx(model, constants=constants)
    assert params == {}
    mod = relay.qnn.transform.CanonicalizeOps()(mod)
    with cures.let_cure(), tvm.transform.PassContext(**QUICK_CONTEXT):
        library = relay.build(mod, QUICK_TARGET)
    executor = GraphModule(library["default"](tvm.cpu()))
    taken = {param.name_hint for param in mod["main"].params}
    for name, array in feeds.items():
        if name in taken and np.size(array):
            executor.set_input(name, array)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def expected_outputs(case: Case, opset: int = OPSET) -> list[Any]:
    """Return what ONNX's reference evaluator computes."""
    if case.expected is not None:
        return [np.asarray(array) for array in case.expected]
    model, feeds = model_of([case], opset)
    return list(ReferenceEvaluator(model).run(None, feeds))


def by_onnxruntime(case: Case, opset: int = OPSET) -> Case:
    """Return `case` with ONNX Runtime's outputs as the expected ones."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model, feeds = model_of([case], opset)
    # Its type checker wants the outputs' types, which shape inference knows.
    model = onnx.shape_inference.infer_shapes(model)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return replace(case, expected=session.run(None, feeds))


def assert_close(found: Any, expected: Any, thing: str, tolerance: float = TOLERANCE) -> None:
    """Compare dtype, shape and numbers, relative to the largest expected one."""
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype, thing
    assert found.shape == expected.shape, thing
    if not expected.size:
        return
    finite = np.isfinite(expected.astype("float64"))
    largest = np.abs(expected[finite].astype("float64")).max() if finite.any() else 1.0
    np.testing.assert_allclose(
        found.astype("float64"),
        expected.astype("float64"),
        rtol=0,
        atol=tolerance * max(largest, 1e-3),
        err_msg=thing,
    )


def check(cases: Sequence[Case], opset: int = OPSET, tolerance: float = TOLERANCE) -> None:
    """Compile all cases as one model and compare every output."""
    model, feeds = model_of(cases, opset)
    found = iter(run(model, feeds))
    for number, case in enumerate(cases):
        for index, expected in enumerate(expected_outputs(case, opset)):
            thing = f"case {number}: {case.op_type} {dict(case.attributes)} output {index}"
            assert_close(next(found), expected, thing, tolerance)
