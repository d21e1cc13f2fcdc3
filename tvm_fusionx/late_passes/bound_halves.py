"""Bound whole registers of halves behind their rounding, and round none that are halves already.

A kernel computes what follows its sums in float32, two registers for one of halves, and rounds what
it stores. Where a processor compares halves, bounds that are halves are taken behind the rounding;
of sums that are halves nothing is then left to round:

    y[0:8] = float16x8(min(max(float32x8(s), 0), 6))   ->   y[0:8] = min(max(s, 0), 6)

Rounding keeps the order that ``max`` and ``min`` go by, so the numbers are the same.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.convert_in_pairs import HALF, SINGLE
from tvm_fusionx.late_passes.narrow_in_pairs import bounded


def bound_halves(lanes: int) -> Any:
    """Return the TIR pass that bounds vectors of `lanes` halves as halves, after lowering."""
    narrow, wide = f"{HALF}x{lanes}", f"{SINGLE}x{lanes}"

    def changed(cast: Any) -> Any:
        if cast.dtype != narrow or cast.value.dtype != wide:
            return None
        value, bounds = bounded(cast.value)
        is_half = isinstance(value, tir.Cast) and value.value.dtype == narrow
        if not bounds and not is_half:
            return None
        rounded = value.value if is_half else tir.Cast(narrow, value)
        for extreme, bound in reversed(bounds):
            rounded = extreme(rounded, tir.Broadcast(tir.const(bound, HALF), lanes))
        return rounded

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.BoundHalves")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, changed, ["tir.Cast"]))

    return run
