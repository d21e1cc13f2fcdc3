"""Round vectors to bfloat16 by the processor's instruction, where it has one.

Kernels round by whole numbers (:func:`tvm_fusionx.tir.brain_floats.narrowed`): eight instructions
a vector. Arm's ``bfcvtn`` rounds four floats to the same numbers: to the nearest, of two the even
one, and what is no number stays none. LLVM makes it of a cast to its own type of bfloat16.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.brain_floats import single_of
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

# Of a vector; the first round one, the others several at once, of which LLVM makes pairs.
LANES = (4, 8, 16)

_FUNCTION = "fusionx_round_to_brains_{lanes}"

_LLVM = """
define <{lanes} x i16> @{function}(<{lanes} x float> %singles) {{
  %rounded = fptrunc <{lanes} x float> %singles to <{lanes} x bfloat>
  %bits = bitcast <{lanes} x bfloat> %rounded to <{lanes} x i16>
  ret <{lanes} x i16> %bits
}}
"""


def round_brains() -> Any:
    """Return the TIR pass that rounds by the instruction, after lowering; for AArch64."""

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.RoundBrains")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        found: set[int] = set()

        def rounded(cast: Any) -> Any:
            value = single_of(cast)
            lanes = None if value is None else _lanes_of(value)
            if lanes not in LANES:
                return None
            found.add(lanes)
            name = _FUNCTION.format(lanes=lanes)
            return tir.call_pure_extern(cast.dtype, name, value)

        body = tir.stmt_functor.ir_transform(func.body, None, rounded, ["tir.Cast"])
        for lanes in sorted(found):
            name = _FUNCTION.format(lanes=lanes)
            body = with_llvm_functions(body, _LLVM.format(lanes=lanes, function=name))
        return func.with_body(body)

    return run


def _lanes_of(value: Any) -> int:
    _, _, lanes = str(value.dtype).partition("x")
    return int(lanes or 1)
