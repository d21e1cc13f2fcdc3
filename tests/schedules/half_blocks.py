"""Blocks whose tensors lie in memory in 16 bits, and the float32 numbers they must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import TARGET, assert_close, inputs_of, module, run_plain
from tests.schedules.blocked_blocks import unscheduled
from tests.verified_kernels import kernels
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.report.bench.stored_numbers import numbers_of, step_of, stored
from tvm_fusionx.schedules import resolve_target, schedule

SINGLE = "float32"


def in_16_bits(body: relay.Expr, dtype: str) -> relay.Expr:
    """Return a block's body as ``ComputeInFloat32`` writes it: float32 between casts."""
    function = module(body)["main"]
    narrow = {
        param: relay.Var(param.name_hint, relay.TensorType(param.checked_type.shape, dtype))
        for param in function.params
        if param.checked_type.dtype == SINGLE
    }
    inside = {param: relay.cast(var, SINGLE) for param, var in narrow.items()}
    kind, whole = function.body.checked_type, relay.bind(function.body, inside)
    if isinstance(kind, relay.TensorType):
        return relay.cast(whole, dtype) if kind.dtype == SINGLE else whole
    fields = list(whole.fields) if isinstance(whole, relay.Tuple) else list(whole)
    return relay.Tuple(
        [
            relay.cast(each, dtype) if of.dtype == SINGLE else each
            for each, of in zip(fields, kind.fields, strict=True)
        ]
    )


def half_block(body: relay.Expr, dtype: str) -> tvm.IRModule:
    """Return a module whose ``main`` calls a float32 block stored in 16 bits.

    What it takes that is constant stands in the call, as the planner writes it.
    """
    constants: dict[Any, relay.Var] = {}

    def lift(expr: Any) -> None:
        if isinstance(expr, relay.Constant) and expr.data.shape:
            of = relay.TensorType(expr.data.shape, expr.data.dtype)
            constants[expr] = relay.Var(f"constant{len(constants)}", of)

    whole = in_16_bits(body, dtype)
    relay.analysis.post_order_visit(whole, lift)
    lifted = _Lift(constants).visit(whole)
    names = [*relay.analysis.free_vars(whole), *constants.values()]
    inner = module(lifted, params=names)["main"]
    block = inner.with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    count = len(names) - len(constants)
    given = [relay.Var(each.name_hint, each.type_annotation) for each in names[:count]]
    return module(relay.Call(block, [*given, *constants]), params=given)


class _Lift(relay.ExprMutator):  # type: ignore[misc]
    def __init__(self, constants: Mapping[Any, relay.Var]) -> None:
        super().__init__()
        self.constants = constants

    def visit_constant(self, const: Any) -> Any:
        return self.constants.get(const, const)


def half_inputs(mod: tvm.IRModule, dtype: str) -> dict[str, np.ndarray]:
    """Return inputs for the parameters of ``main`` that are numbers of a 16-bit type."""
    return {
        name: numbers_of(stored(array, dtype)).astype(SINGLE) if array.dtype == SINGLE else array
        for name, array in inputs_of(mod).items()
    }


def float32_outputs(
    body: relay.Expr, inputs: Mapping[str, np.ndarray], dtype: str
) -> list[np.ndarray]:
    """Return what plain TVM computes in float32, rounded to a 16-bit type at the end."""
    found = run_plain(module(body), inputs)
    return [numbers_of(stored(array, dtype)) if array.dtype == SINGLE else array for array in found]


def assert_half_kernel(
    body: relay.Expr, dtype: str, template: str | None = None, target: Any = TARGET
) -> Any:
    """Schedule a float32 block stored in 16 bits; it must give the float32 numbers to one step.

    Returns
    -------
    tir.PrimFunc
        The kernel.
    """
    resolved = resolve_target(target)
    made = schedule(unscheduled(in_16_bits(body, dtype), resolved), resolved)
    assert made.fallback_reason is None
    assert template is None or made.template == template
    mod = module(body)
    facts = (mod, dtype, assert_half_kernel, half_inputs, float32_outputs, assert_close)
    if kernels.has(made.func, resolved, facts):
        return made.func
    inputs = half_inputs(mod, dtype)
    expected = float32_outputs(body, inputs, dtype)
    assert all(np.isfinite(array).all() for array in expected)
    # The block's own order of parameters.
    order = [param.name_hint for param in module(in_16_bits(body, dtype))["main"].params]
    given = [_in_memory(inputs[name], dtype) for name in order]
    found = [_unwritten(array, dtype) for array in expected]
    compile_kernel(made.func, resolved, "kernel")(*given, *found)
    assert_same_to_a_step(list(map(numbers_of, found)), expected, dtype)
    return made.func


def assert_same_to_a_step(
    found: Sequence[np.ndarray], expected: Sequence[np.ndarray], dtype: str
) -> None:
    """Compare numbers of a 16-bit type, one by one relative to the largest."""
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    assert_close(list(map(_wide, found)), list(map(_wide, expected)), step_of(dtype))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(SINGLE) if array.dtype == np.float16 else array


def _in_memory(array: np.ndarray, dtype: str) -> Any:
    return stored(array, dtype) if array.dtype == SINGLE else tvm.nd.array(array)


def _unwritten(like: np.ndarray, dtype: str) -> Any:
    """Return an array that holds no numbers yet, so that what is not written shows."""
    if np.issubdtype(like.dtype, np.floating):
        return stored(np.full(like.shape, np.nan, SINGLE), dtype)
    return tvm.nd.array(np.full_like(like, 77))
