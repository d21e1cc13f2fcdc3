"""What is quantized and dequantized in one kernel stays in floats, once loops are vectors.

Between two operators of a quantized model, values are rounded to levels, stored as bytes, and read
again. Where one kernel does all three nobody sees the bytes, and a level is a whole number that a
float holds exactly::

    float32(int32(uint8(max(min(round(x) + z, 255), 0))) - z)   ->   max(min(round(x), 255 - z), -z)

That leaves out an addition, two conversions, a subtraction, and narrowing and widening, which x86
makes of shuffles: of 21 instructions behind a product with a quantized residual, five. The numbers
are the same. A NaN, which no byte stands for, stays one.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.expressions.round_even import ROUNDING
from tvm_fusionx.late_passes.round_to_bytes import SINGLE, Rounded, rounded_to_byte
from tvm_fusionx.processors.integers import SUM


def levels_in_floats() -> Any:
    """Return the TIR pass that leaves bytes out which the same expression reads again."""

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.LevelsInFloats")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, _level, ["tir.Cast"]))

    return run


def _level(node: Any) -> Any | None:
    """Return a float that was a byte as one that never was; None of anything else."""
    if not str(node.dtype).startswith(f"{SINGLE}x"):
        return None
    value, taken = node.value, 0
    if isinstance(value, tir.Sub):
        number = value.b.value if isinstance(value.b, tir.Broadcast) else value.b
        if not isinstance(number, tir.IntImm):
            return None
        value, taken = value.a, int(number)
    if isinstance(value, tir.Cast) and str(value.dtype).startswith(f"{SUM}x"):
        value = value.value
    rounded = rounded_to_byte(value)
    return None if rounded is None else _bounded(rounded, taken)


def _bounded(rounded: Rounded, taken: int) -> Any:
    """Return the rounded value between its bounds, less the zero point that is taken away."""
    kind = rounded.value.dtype
    lanes = tvm.DataType(kind).lanes

    def each(number: int) -> Any:
        return tir.Broadcast(tir.const(float(number), SINGLE), lanes)

    level = tir.call_intrin(kind, ROUNDING, rounded.value)
    level = tir.Min(level, each(rounded.high - rounded.zero))
    level = tir.Max(level, each(rounded.low - rounded.zero))
    return level if rounded.zero == taken else level + each(rounded.zero - taken)
