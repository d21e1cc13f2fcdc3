"""Divisions by a constant zero are computed while a kernel runs, as ONNX Runtime has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.relay_modules import graph, var
from tvm_fusionx.rewrite.zero_divisors import shield_zero_divisors

X = np.array([[1, -2, 0, -0.0, np.inf, -np.inf, np.nan]] * 3, "float32")


def _divided(divisor: np.ndarray[Any, Any]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Div", ["x", "divisor"], ["quotient"]),
        helper.make_node("Abs", ["quotient"], ["y"]),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, X.shape) for n in ("x", "y")]
    held = numpy_helper.from_array(divisor, "divisor")
    made = helper.make_graph(nodes, "divided", infos[:1], infos[1:], [held])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# The last is zero once denormal constants are.
@pytest.mark.parametrize("divisor", [0.0, -0.0, 1e-40])
def test_a_model_that_divides_by_zero_has_onnx_runtimes_infinities(divisor: float) -> None:
    model = _divided(np.array(divisor, "float32"))
    mod, params = fx.from_onnx(model)
    library = fx.build(mod, "llvm -mcpu=x86-64-v3", params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=X)
    zero = _divided(np.array(0, "float32"))
    session = onnxruntime.InferenceSession(zero.SerializeToString())
    np.testing.assert_array_equal(executor.get_output(0).numpy(), session.run(None, {"x": X})[0])


def test_other_divisors_stay_as_they_are() -> None:
    x, n, scalar = var("x", 3, 4), var("n", 3, dtype="int32"), var("s")
    body = relay.Tuple(
        [
            x / relay.const(2.0),
            x / relay.const(np.zeros((1, 4), "float32")),
            relay.const(0.0) / x,
            relay.divide(n, relay.const(0)),
            scalar / relay.const(0.0),
        ]
    )
    assert shield_zero_divisors(graph(body)) == 0
    assert shield_zero_divisors(graph(x / relay.const(0.0))) == 1
