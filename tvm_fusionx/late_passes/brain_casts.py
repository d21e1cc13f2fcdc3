"""Casts of bfloat16 that TVM leaves as casts, by their bits.

::

    wide[i] = Cast("float32", x[i])  ->  wide[i] = reinterpret("float32", bits of x[i] << 16)

TVM keeps an array of bfloat16 within a kernel as float32. Where an element is only moved into it,
TVM casts the element; and when it has made 16-bit integers of all bfloat16, the cast takes the bits
for a whole number.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.brain_floats import is_brain, narrowed, widened

SINGLE = "float32"


def cast_brains_by_bits() -> Any:
    """Return the TIR pass; it runs behind TVM's own that computes bfloat16 in float32."""

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.CastBrainsByBits")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, by_bits, ["tir.Cast"]))

    return run


def by_bits(cast: Any) -> Any:
    """Return what takes a cast's place; None for one between other types."""
    source, target = str(cast.value.dtype), str(cast.dtype)
    if is_brain(source) == is_brain(target):
        return None
    if is_brain(target):
        is_single = source.startswith(SINGLE)
        return narrowed(cast.value if is_single else tir.Cast(_like(source), cast.value))
    wide = widened(cast.value)
    return wide if target.startswith(SINGLE) else tir.Cast(target, wide)


def _like(dtype: str) -> str:
    """Return float32 with as many lanes."""
    _, mark, lanes = dtype.rpartition("x")
    return f"{SINGLE}x{lanes}" if mark and lanes.isdigit() else SINGLE
