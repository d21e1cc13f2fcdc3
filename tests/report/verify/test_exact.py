from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.report.verify.exact import exact_outputs, in_float64

TARGET = "llvm"


def _function(parameters: list[relay.Var], body: relay.Expr) -> relay.Function:
    module = tvm.IRModule.from_expr(relay.Function(parameters, body))
    return relay.transform.InferType()(module)["main"]


def test_a_cancellation_keeps_its_digits() -> None:
    x = relay.var("x", shape=(4,))
    function = _function([x], (x + relay.const(np.float32(1e8))) - relay.const(np.float32(1e8)))
    given = np.arange(4, dtype=np.float32) / 8
    (exact,) = exact_outputs(function, [given], TARGET)
    np.testing.assert_array_equal(exact, given.astype(np.float64))


def test_a_softmax_of_thousands_is_that_of_numpy() -> None:
    x = relay.var("x", shape=(2, 6625))
    given = np.random.default_rng(0).standard_normal((2, 6625)).astype(np.float32)
    (exact,) = exact_outputs(_function([x], relay.nn.softmax(x)), [given], TARGET)
    powers = np.exp(given.astype(np.float64))
    np.testing.assert_allclose(exact, powers / powers.sum(axis=1, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_attributes_tuples_and_integers_come_along(dtype: str) -> None:
    x = relay.var("x", shape=(1, 2, 4, 4), dtype=dtype)
    ids = relay.var("ids", shape=(3,), dtype="int32")
    weight = relay.const(np.ones((2, 2, 1, 1), dtype))
    halves = relay.split(relay.nn.conv2d(x, weight, out_dtype=dtype), 2, axis=1)
    taken = relay.take(halves[0] + halves[1], relay.cast(ids, "int64"), axis=3)
    function = _function([x, ids], relay.Tuple([taken, ids + relay.const(1, "int32")]))
    module = in_float64(function)
    fields = module["main"].ret_type.fields
    assert [str(field.dtype) for field in fields] == ["float64", "int32"]
    numbers = np.ones((1, 2, 4, 4), dtype)
    taken_exact, next_ids = exact_outputs(function, [numbers, np.array([0, 2, 1], "int32")], TARGET)
    np.testing.assert_array_equal(taken_exact, np.full((1, 1, 4, 3), 4.0))
    np.testing.assert_array_equal(next_ids, [1, 3, 2])


def test_the_function_itself_is_left_alone() -> None:
    x = relay.var("x", shape=(2,))
    function = _function([x], relay.cast(x, "float32"))
    assert str(in_float64(function)["main"].ret_type.dtype) == "float64"
    assert str(function.ret_type.dtype) == "float32"
