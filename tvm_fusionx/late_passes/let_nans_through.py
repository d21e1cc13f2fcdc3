"""The pass that has the larger and the smaller of two floats let a NaN through.

TVM's code for ``max(a, b)`` is ``a > b ? a : b``. Of a NaN on either side the comparison is false,
so b is the result; x86's ``maxps`` is the same. TVM writes bounds on the right (Relu is
``max(x, 0)``), and a NaN becomes a zero. With the bound on the left it stays, as in ONNX Runtime,
by the same instructions. Of two operands that are both computed, as in a pool, a NaN on the right
stays, which is that of a window's last element; ONNX Runtime's pools on x86 are the same.

Arm's ``fmax`` keeps a NaN of either side, so there all of them become that instruction. LLVM's
unroller takes it for half of the comparison and selection that it replaces, and unrolls rows of
small depthwise convolutions whole (nine rows of 16 channels: a quarter more instructions executed).
A bound on the left, which LLVM makes two instructions of, cost products and depthwise convolutions
of models' own shapes 0.7 to 3.5 % more than that.

An infinite bound bounds no number. It is how a kernel says that it wants NaN away
(``ArgMax``), and stays as it is.

The pass is the last that sees a kernel before there are polynomials, which have bounds of their
own (:func:`extremes_by_instruction` is for those): hence it is one for all templates. What becomes
an integer is left alone: none of them stands for NaN, and the bound keeps the conversion defined.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tvm import tir
from tvm.target import codegen

# LLVM's instructions that keep a NaN of either operand (``llvm.maxnum`` keeps the number).
_INTRINSICS = {tir.Max: "llvm.maximum", tir.Min: "llvm.minimum"}
_WITH_INSTRUCTIONS = ("float32", "float64")
_HALF = "float16"
_NODES = ["tir.Max", "tir.Min", "tir.Cast"]


def let_nans_through(extremes_keep_nan: bool, *, compares_halves: bool = False) -> Any:
    """Return the TIR pass that lets NaN through maxima and minima, after lowering.

    Parameters
    ----------
    extremes_keep_nan
        Whether the processor has an instruction that keeps a NaN of either operand.
    compares_halves
        Whether it has it for halves too; LLVM would widen the operands where it has none.
    """
    types = (*_WITH_INSTRUCTIONS, *([_HALF] if compares_halves else []))

    def rewrite(node: Any) -> Any:
        if extremes_keep_nan and str(node.dtype).startswith(types):
            return _as_instruction(node)
        return _with_bound_first(node)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.LetNansThrough")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(_with_extremes(func.body, rewrite))

    return run


def extremes_by_instruction(stmt: Any) -> Any:
    """Return a statement, its maxima and minima of floats instructions that keep any NaN.

    As a comparison and a selection, LLVM makes two instructions of each.
    """
    return _with_extremes(stmt, _as_instruction)


def _with_extremes(stmt: Any, rewrite: Callable[[Any], Any]) -> Any:
    def changed(node: Any) -> Any:
        is_extreme_of_floats = not isinstance(node, tir.Cast) and "float" in str(node.dtype)
        return rewrite(node) if is_extreme_of_floats and not _drops_nan(node) else None

    return tir.stmt_functor.ir_transform(stmt, _left_alone, changed, _NODES)


def is_extreme(call: Any) -> bool:
    """Tell whether a call is what the pass makes of a maximum or minimum: it computes nothing."""
    if getattr(call.op, "name", "") != "tir.call_llvm_pure_intrin":
        return False
    return int(call.args[0]) in _numbers_of_intrinsics()


@functools.cache
def _numbers_of_intrinsics() -> frozenset[int]:
    return frozenset(map(codegen.llvm_lookup_intrinsic_id, _INTRINSICS.values()))


def _left_alone(node: Any) -> Any:
    """Return a cast to an integer, so that nobody looks into it; None for everything else."""
    return node if isinstance(node, tir.Cast) and "float" not in str(node.dtype) else None


def _as_instruction(node: Any) -> Any:
    operands = node.a, node.b
    count = tir.const(len(operands), "uint32")
    return tir.call_llvm_pure_intrin(node.dtype, _INTRINSICS[type(node)], count, *operands)


def _with_bound_first(node: Any) -> Any:
    is_bounded = _bound(node.b) is not None and _bound(node.a) is None
    return type(node)(node.b, node.a) if is_bounded else None


def _drops_nan(node: Any) -> bool:
    bound = _bound(node.b)
    return bound is not None and math.isinf(bound)


def _bound(expr: Any) -> float | None:
    """Return the one number that an expression is for all lanes; None where that is not known."""
    value = expr.value if isinstance(expr, tir.Broadcast) else expr
    is_number = isinstance(value, tir.FloatImm) and not math.isnan(value.value)
    return float(value.value) if is_number else None
