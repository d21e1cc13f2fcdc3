from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.contrib.graph_executor import GraphModule

from tests.frontend.converters.microsoft.by_onnx_runtime import floats, integers
from tvm_fusionx._tvm import cures
from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import (
    numbers,
    parameter,
    quantize_by_range,
    quantized,
)
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

pytestmark = pytest.mark.slow

NODE = Node("n", "com.microsoft.QLinearAdd", 1, {}, [], [""], [])


def computed(*exprs: Any, **feeds: Any) -> list[Any]:
    """Return the numbers of expressions of variables."""
    body = relay.Tuple(list(exprs))
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    mod = relay.qnn.transform.CanonicalizeOps()(relay.transform.InferType()(mod))
    with cures.let_cure(), tvm.transform.PassContext(opt_level=0):
        library = relay.build(mod, "llvm")
    executor = GraphModule(library["default"](tvm.cpu()))
    executor.run(**feeds)
    return [executor.get_output(i).numpy() for i in range(len(exprs))]


def one(value: Any) -> Tensor:
    return Tensor.from_array(np.asarray(value))


def test_numbers_there_and_back() -> None:
    x, scale, zero = integers("uint8", 100), one(np.float32(0.07)), one(np.uint8(100))
    variable = Tensor(relay.var("x", shape=(100,), dtype="uint8"), (100,), "uint8")
    real = numbers(NODE, variable, scale, zero)
    found, back = computed(real, quantized(real, scale, zero, variable), x=x)
    np.testing.assert_allclose(found, (x.astype("float32") - 100) * np.float32(0.07), rtol=1e-6)
    np.testing.assert_array_equal(back, x)


def test_ranges_hold_zero_and_divide_no_zero() -> None:
    for x in (floats(64), floats(64) * 0 + 3, np.zeros(64, "float32"), -np.ones(64, "float32")):
        variable = relay.var("x", shape=(64,), dtype="float32")
        levels, point, scale = computed(*quantize_by_range(variable), x=x)
        assert 0 <= levels.min() <= levels.max() <= 255
        np.testing.assert_allclose((levels - point) * scale, x, atol=scale / 2 * 1.001)


def test_parameters_broadcast_where_there_are_several() -> None:
    several = parameter(one(np.arange(3, dtype="float32")), "float32", (-1, 1))
    assert computed(several)[0].shape == (3, 1)
    assert computed(parameter(None, "int32"))[0] == 0
