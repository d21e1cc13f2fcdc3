"""Blocks of a half precision model compute in float32."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import blocks_of, const, module, operator_names, run_plain, var
from tvm_fusionx.layout.single_blocks import (
    compute_in_single,
    computed_in_single,
    why_not_single,
)

HALF, BRAIN = "float16", "bfloat16"
# No constant of these tests is multiplied as often.
OFTEN = math.inf


def _half(name: str, *shape: int, dtype: str = HALF) -> relay.Var:
    return var(name, *shape, dtype=dtype)


def _typed(function: relay.Function) -> relay.Function:
    return module(function.body, params=list(function.params))["main"]


def _made(*results: relay.Expr, most_uses: float = OFTEN) -> tvm.IRModule:
    before = module(*results)
    function = compute_in_single(before["main"], most_uses)
    after = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    tvm.ir.assert_structural_equal(after["main"].ret_type, before["main"].ret_type)
    return after


def _dense(dtype: str = HALF) -> relay.Function:
    p, q = _half("p", 4, 16, dtype=dtype), _half("q", 8, 16, dtype=dtype)
    return block("product", [p, q], relay.nn.relu(relay.nn.dense(p, q, out_dtype=dtype)))


@pytest.mark.parametrize("dtype", [HALF, BRAIN])
def test_operands_are_widened_and_results_rounded_once(dtype: str) -> None:
    x, w = _half("x", 4, 16, dtype=dtype), _half("w", 8, 16, dtype=dtype)
    (made,) = blocks_of(_made(_dense(dtype)(x, w)))
    assert operator_names(made) == ["cast", "cast", "cast", "nn.dense", "nn.relu"]
    assert [str(param.checked_type.dtype) for param in made.params] == [dtype, dtype]
    rounding = made.body
    assert (rounding.op.name, rounding.attrs.dtype) == ("cast", dtype)
    product = rounding.args[0].args[0]
    assert str(product.checked_type.dtype) == "float32"
    assert product.attrs.out_dtype == "float32"


def test_a_block_keeps_its_name_and_marks() -> None:
    made = _made(_dense()(_half("x", 4, 16), _half("w", 8, 16)))
    (found,) = blocks_of(made)
    assert str(found.attrs["fusionx.block"]) == "product"
    assert int(found.attrs["Primitive"]) == 1


def test_casts_inside_of_a_block_become_nothing() -> None:
    p = _half("p", 4, 16)
    wide = block("b", [p], relay.exp(relay.cast(p, "float32")))
    (made,) = blocks_of(_made(wide(_half("x", 4, 16))))
    assert operator_names(made) == ["cast", "exp"]


def test_results_are_rounded_one_by_one() -> None:
    p = _half("p", 4, 16)
    largest = relay.argmax(p, axis=1)
    two = block("two", [p], relay.Tuple([relay.nn.relu(p), largest]))(_half("x", 4, 16))
    made = _made(relay.TupleGetItem(two, 0), relay.TupleGetItem(two, 1))
    (found,) = blocks_of(made)
    assert operator_names(found) == ["argmax", "cast", "cast", "nn.relu"]
    q = _half("q", 4, 16)
    halves = block("split", [q], relay.exp(relay.split(q, 2, axis=1)[0]))
    assert operator_names(blocks_of(_made(halves(_half("x", 4, 16))))[0]).count("cast") == 2


def test_a_split_that_is_a_blocks_result_is_cast_field_by_field() -> None:
    p = _half("p", 4, 16)
    wide = relay.split(relay.exp(p), 2, axis=1).astuple()
    call = block("split", [p], wide)(_half("x", 4, 16))
    made = _made(relay.TupleGetItem(call, 0), relay.TupleGetItem(call, 1))
    assert operator_names(blocks_of(made)[0]) == ["cast", "cast", "cast", "exp", "split"]


@pytest.mark.parametrize("most_uses", [1, OFTEN])
def test_a_constant_that_is_multiplied_again_and_again_is_widened_once(most_uses: float) -> None:
    weights = const(8, 16, dtype=HALF)
    made = _made(_dense()(_half("x", 4, 16), weights), most_uses=most_uses)
    (found,) = blocks_of(made)
    is_wide = most_uses == 1
    assert str(found.params[1].checked_type.dtype) == ("float32" if is_wide else HALF)
    (given,) = [each for each in made["main"].body.args if isinstance(each, relay.Constant)]
    np.testing.assert_array_equal(given.data.numpy(), weights.data.numpy())
    assert operator_names(found).count("cast") == (2 if is_wide else 3)


def test_sums_are_those_of_float32() -> None:
    x = _half("x", 1, 4096)
    p = _half("p", 1, 4096)
    mean_of_squares = block("b", [p], relay.sqrt(relay.mean(p * p, axis=1)))
    given = np.full((1, 4096), 300, HALF)
    before = module(mean_of_squares(x))
    (half,) = run_plain(before, {"x": given})
    assert not np.isclose(half[0], 300, rtol=1e-2)
    function = compute_in_single(before["main"], OFTEN)
    (found,) = run_plain(tvm.IRModule.from_expr(function), {"x": given})
    assert (found.dtype, float(found[0])) == (np.float16, 300.0)


def test_a_function_of_operators_is_computed_in_float32_too() -> None:
    x = _half("x", 8)
    function = module(relay.exp(x) + const(8, dtype=HALF))["main"]
    made = _typed(computed_in_single(function))
    assert operator_names(made) == ["add", "cast", "cast", "exp"]
    assert str(made.ret_type.dtype) == HALF


def _inner(kind: str) -> relay.Function:
    p = _half("p", 4, 16)
    if kind == "function":
        q = _half("q", 4, 16)
        return block("outer", [p], relay.Call(block("inner", [q], relay.exp(q)), [p]))
    made = {
        "sort": lambda: relay.sort(p),
        "moves": lambda: relay.reshape(relay.transpose(p), (64,)),
        "bits": lambda: relay.reinterpret(relay.nn.relu(p), "int16"),
        "wide": lambda: relay.exp(var("p", 4, 16)),
    }[kind]()
    return block(kind, relay.analysis.free_vars(made), made)


REASONS = {
    "function": "it calls a function",
    "sort": "TVM schedules sort by itself",
    "moves": "it only moves",
    "bits": "it reads bits",
    "wide": "nothing in it is narrow",
}


@pytest.mark.parametrize("kind", REASONS)
def test_blocks_without_arithmetic_of_their_own_stay_as_they_are(kind: str) -> None:
    function = _inner(kind)
    assert why_not_single(_typed(function)) == REASONS[kind]
    x = var("x", 4, 16, dtype="float32" if kind == "wide" else HALF)
    before = module(function(x))
    after = tvm.IRModule.from_expr(compute_in_single(before["main"], OFTEN))
    tvm.ir.assert_structural_equal(relay.transform.InferType()(after), before)


def test_there_is_no_reason_against_arithmetic_in_halves() -> None:
    assert why_not_single(_typed(_dense())) is None


def test_a_function_without_blocks_is_computed_in_float32_whole() -> None:
    made = _made(relay.exp(_half("x", 4, dtype=BRAIN)))
    assert operator_names(made["main"]) == ["cast", "cast", "exp"]


def test_operators_beside_blocks_stay_as_they_are() -> None:
    p = _half("p", 4, 16)
    moved = block("moves", [p], relay.transpose(p))(_half("x", 4, 16))
    before = module(relay.exp(moved))
    after = tvm.IRModule.from_expr(compute_in_single(before["main"], OFTEN))
    tvm.ir.assert_structural_equal(relay.transform.InferType()(after), before)
