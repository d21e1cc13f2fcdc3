"""The dot product of short integers as one operation of TIR.

``dot(a0, .., b0, ..)`` is the sum of ``int32(a_i) * int32(b_i)``. To a schedule it is what a
multiplication is in a product of floats: `depth` integers that lie side by side take the place of
one float, so tiles, panels and their costs are the same. After lowering it becomes the processor's
own instruction (:mod:`tvm_fusionx.late_passes.emit_dots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tir

from tvm_fusionx._tvm.registry import register_pure_intrinsic
from tvm_fusionx.processors.integers import SUM

DOT_OPERATION = "tir.fusionx_dot"


def register_dot() -> None:
    """Make the operation known to TIR; idempotent."""
    register_pure_intrinsic(DOT_OPERATION)


def dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    """Return the operation on two sequences of as many integers."""
    return tir.call_intrin(SUM, DOT_OPERATION, *left, *right)


def is_dot_call(expr: Any) -> bool:
    """Tell whether an expression is the operation."""
    return isinstance(expr, tir.Call) and getattr(expr.op, "name", "") == DOT_OPERATION


def sides_of(call: Any) -> tuple[list[Any], list[Any]]:
    """Return the integers on the left and on the right of the operation."""
    args = list(call.args)
    return args[: len(args) // 2], args[len(args) // 2 :]
