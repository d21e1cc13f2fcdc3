"""A NaN passes the bounds of every kernel, and bounds cost no instruction more for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, te, tir

from tests.relay_modules import TARGET, inputs_of, module, run_plain, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.test_data_types import PRODUCTS
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.flush_denormals import FLUSH, KEEP, Denormals, computes_in_floats
from tvm_fusionx.late_passes.let_nans_through import is_extreme
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target, schedule

ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+neon"
F = "float32"
NAME = "tvm_fusionx.LetNansThrough"

BOUNDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relu": (relay.nn.relu, lambda y: np.maximum(y, 0)),
    "clip": (lambda y: relay.clip(y, -1.0, 2.0), lambda y: np.clip(y, -1, 2)),
}
BLOCKS: dict[str, Callable[[], relay.Expr]] = {
    **{name: (lambda make=make: make(F, F, F)) for name, make in PRODUCTS.items()},
    "rows": lambda: relay.add(var("x", 7, 21), var("w", 21)),
    "a norm": lambda: var("x", 7, 40) - relay.mean(var("x2", 7, 40), axis=1, keepdims=True),
}


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("block", few_fast(list(BLOCKS)))
def test_a_nan_passes_the_bound_of_each_kernel(block: str, bound: str) -> None:
    applied, expected = BOUNDS[bound]
    body = BLOCKS[block]()
    plain = module(body)
    inputs = inputs_of(plain)
    first = next(iter(inputs))
    inputs[first].reshape(-1)[::97] = np.nan
    (unbounded,) = run_plain(plain, inputs)
    assert 0 < np.isnan(unbounded).sum() < unbounded.size

    target = resolve_target(TARGET)
    kernel = compile_kernel(schedule(unscheduled(applied(body)), target).func, target, "kernel")
    found = tvm.nd.array(np.full_like(unbounded, 77))
    kernel(*(tvm.nd.array(value) for value in inputs.values()), found)
    np.testing.assert_allclose(found.numpy(), expected(unbounded), rtol=1e-5, atol=1e-5)


def _instructions(func: Any, target: str) -> Counter[str]:
    made = compile_kernel(func, resolve_target(target), "kernel").get_source("asm")
    lines = (line.split() for line in made.splitlines() if line.startswith("\t"))
    return Counter(words[0] for words in lines if not words[0].startswith("."))


@pytest.mark.parametrize("target", ["llvm -mcpu=znver4", "llvm -mcpu=haswell", ARM])
@pytest.mark.parametrize("bound", BOUNDS)
def test_bounds_cost_no_instruction_more(target: str, bound: str) -> None:
    body = BOUNDS[bound][0](PRODUCTS["one pixel"](F, F, F))
    func = schedule(unscheduled(body), resolve_target(target)).func
    after = _instructions(func, target)
    with tvm.transform.PassContext(disabled_pass=[NAME]):
        before = _instructions(func, target)
    assert sum(after.values()) <= sum(before.values())
    if target == ARM:
        assert after["fmax"] == before["fmaxnm"] > 0


def _lowered(function: Callable[[Any], Any], target: str, dtype: str = F) -> tvm.IRModule:
    x = te.placeholder((32,), dtype, name="x")
    y = te.compute((32,), lambda i: function(x[i]))
    with pass_context(resolve_target(target)):
        return tvm.lower(te.create_prim_func([x, y]), name="kernel")


def _extremes(mod: tvm.IRModule) -> list[str]:
    found: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Call) and is_extreme(node):
            found.append("instruction")
        elif isinstance(node, tir.Max | tir.Min):
            found.append("left" if isinstance(node.a, tir.FloatImm | tir.IntImm) else "right")

    tir.stmt_functor.post_order_visit(mod["kernel"].body, visit)
    return found


@pytest.mark.parametrize(
    ("function", "dtype", "on_x86", "on_arm"),
    [
        (lambda x: te.max(x, tir.const(0.0, F)), F, ["left"], ["instruction"]),
        (lambda x: te.max(x, x * 2.0), F, ["right"], ["instruction"]),
        (lambda x: te.max(x, tir.const(0.0, "float16")), "float16", ["left"], ["instruction"]),
        # How kernels get rid of NaN.
        (lambda x: te.max(x, tir.const(-np.inf, F)), F, ["right"], ["right"]),
        (lambda x: te.min(x, tir.const(np.inf, F)), F, ["right"], ["right"]),
        (lambda x: te.min(x, tir.max_value(F)), F, ["left"], ["instruction"]),
        # No integer is NaN.
        (lambda x: te.max(x, 3), "int32", ["right"], ["right"]),
        (lambda x: tir.Cast("int8", te.min(x, tir.const(9.0, F))), F, ["right"], ["right"]),
    ],
    ids=[
        "bound",
        "both computed",
        "half",
        "no lower",
        "no higher",
        "the largest",
        "integer",
        "cast",
    ],
)
def test_bounds_are_written_on_the_left(
    function: Callable[[Any], Any], dtype: str, on_x86: list[str], on_arm: list[str]
) -> None:
    assert _extremes(_lowered(function, "llvm -mcpu=haswell", dtype)) == on_x86
    assert _extremes(_lowered(function, ARM, dtype)) == on_arm


@pytest.mark.parametrize("function", [relay.sigmoid, relay.exp, relay.tanh, relay.erf])
def test_bounds_of_polynomials_are_one_instruction_on_arm(
    function: Callable[[Any], Any],
) -> None:
    func = schedule(unscheduled(function(var("x", 4, 16))), resolve_target(ARM)).func
    found = _instructions(func, ARM)
    assert found["fmin"] + found["fmax"] > 0
    assert found["fminnm"] + found["fmaxnm"] + found["fcmge"] == 0


def test_a_sigmoid_on_arm_compares_nothing_where_denormals_are_zeros() -> None:
    target = resolve_target(ARM)
    x = te.placeholder((32,), F, name="x")
    y = te.compute((32,), lambda i: te.sigmoid(x[i]))
    func = te.create_prim_func([x, y])

    def comparisons(denormals: Denormals) -> int:
        with pass_context(target, denormals=denormals):
            body = tvm.lower(func, name="kernel")["kernel"].body
        found: list[Any] = []
        tir.stmt_functor.post_order_visit(
            body, lambda node: found.append(node) if isinstance(node, tir.Select) else None
        )
        return len(found)

    assert comparisons(FLUSH) == 0
    assert comparisons(KEEP) > 0


def test_an_instruction_that_chooses_is_no_arithmetic() -> None:
    assert not computes_in_floats(_lowered(lambda x: te.max(x, 0.5), ARM)["kernel"].body)
    assert computes_in_floats(_lowered(lambda x: te.max(x * 2.0, 0.5), ARM)["kernel"].body)
