"""The same operators on wider or narrower floats."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, inputs_of, module, operator_names, run_plain, var
from tvm_fusionx.ecg.retyped import retyped

WIDENED = {"float16": "float32", "bfloat16": "float32"}


def _wide(*results: relay.Expr) -> relay.Function:
    """Return the function of `results` in float32, typed."""
    function = module(*results)["main"]
    params = {
        param: var(
            param.name_hint,
            *map(int, param.checked_type.shape),
            dtype=WIDENED.get(param.checked_type.dtype, param.checked_type.dtype),
        )
        for param in function.params
    }
    return module(retyped(function, WIDENED, params), params=list(params.values()))["main"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operators_stay_and_their_types_change(dtype: str) -> None:
    x, ids = var("x", 2, 3, dtype=dtype), var("ids", 2, dtype="int64")
    halves = relay.split(x + x, 3, axis=1)
    found = _wide(relay.take(halves[1], ids, axis=0), ids + relay.const(1, "int64"))
    assert operator_names(found) == ["add", "add", "split", "take"]
    assert [str(field.dtype) for field in found.ret_type.fields] == ["float32", "int64"]


def test_types_named_by_attributes_change_too() -> None:
    x, w = var("x", 2, 4, dtype="float16"), const(3, 4, dtype="float16")
    found = _wide(relay.nn.dense(x, w, out_dtype="float16"))
    assert found.body.attrs.out_dtype == "float32"
    units = relay.full(relay.const(1.0, "float16"), (2, 4), "float16")
    assert str(_wide(x + units).ret_type.dtype) == "float32"


def test_other_attributes_are_kept() -> None:
    x = var("x", 2, 4, dtype="float16")
    product = relay.nn.dense(x, const(3, 4, dtype="float16"), units=3, out_dtype="float32")
    found = _wide(relay.reshape(product, (3, 2)))
    assert list(map(int, found.body.attrs.newshape)) == [3, 2]
    assert int(found.body.args[0].attrs.units) == 3


def test_casts_between_types_that_became_equal_are_gone() -> None:
    x = var("x", 4, dtype="float16")
    assert operator_names(_wide(relay.cast(x, "float32") + relay.const(1.0))) == ["add"]
    kept = _wide(relay.cast(relay.cast(x, "int32"), "float16"))
    assert operator_names(kept) == ["cast", "cast"]
    assert str(kept.ret_type.dtype) == "float32"


def test_constants_keep_their_numbers() -> None:
    numbers = np.float16([0.1, -65504, np.inf])
    found = _wide(var("x", 3, dtype="float16") + relay.const(numbers, "float16"))
    (constant,) = [each for each in found.body.args if isinstance(each, relay.Constant)]
    np.testing.assert_array_equal(constant.data.numpy(), numbers.astype("float32"))


def test_numbers_are_those_of_the_wider_type() -> None:
    x = var("x", 64, dtype="float16")
    squares = relay.sqrt(relay.sum(x * x))
    given = np.full(64, 300, "float16")
    (half,) = run_plain(module(squares), {"x": given})
    assert np.isinf(half)
    wide = tvm.IRModule.from_expr(_wide(squares))
    (found,) = run_plain(wide, {"x": given.astype("float32")})
    np.testing.assert_allclose(found, 2400, rtol=1e-6)


def test_narrower_types_are_made_too() -> None:
    function = module(relay.exp(var("x", 4)))["main"]
    body = retyped(function, {"float32": "float16"}, {function.params[0]: var("x", 4)})
    assert operator_names(body) == ["exp"]
    assert inputs_of(module(body))["x"].dtype == np.float32
