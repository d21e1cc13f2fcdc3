"""Numbers that LLVM cannot foresee, so that an address made of one stays what the kernel made it.

LLVM moves each load out of the loops that its address does not change in, loads once what two parts
of a kernel read, and reaches all of a buffer from one address. Where registers are few it then
spills what it moved, and what lies beyond the reach of a pair of loads (1,008 bytes on Arm) it
loads one by one. A number that comes from an empty line of assembly, anew each time that the line
runs, keeps loads where they are and starts an address of its own. It costs one instruction.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

FUNCTION = "fusionx_hidden_number"

# An instruction that loads a pair of vectors of float32 has an offset of seven bits, in vectors of
# 16 bytes (Arm ARM, C6.2, LDP (SIMD&FP)): the last one begins so many elements from an address.
PAIR_REACH = 63 * 4
PAIR_REACH_OF_HALVES = 63 * 8

# `sideeffect` keeps LLVM from running it once in the place of twice; it touches no memory.
_LLVM = f"""
define i32 @{FUNCTION}(i32 %number) {{
  %hidden = call i32 asm sideeffect "", "=r,0"(i32 %number)
  ret i32 %hidden
}}
"""


def hidden(ib: Any, number: int, name: str = "hidden") -> Any:
    """Return a variable that is `number`, of which LLVM does not know it.

    The kernel has to be wrapped in :func:`with_hidden_numbers`.
    """
    return ib.let(name, _hiding(number))


def hidden_zero(name: str = "hidden") -> tuple[Any, Any]:
    """Return a variable, and the zero that LLVM does not know and that it is to be let be."""
    return tir.Var(name, "int32"), _hiding(0)


def _hiding(number: int) -> Any:
    return tir.call_extern("int32", FUNCTION, tir.const(number, "int32"))


def with_hidden_numbers(kernel: Any) -> Any:
    """Return statement `kernel` with the function that :func:`hidden` calls."""
    return with_llvm_functions(kernel, _LLVM)


def known_part(place: Any) -> tuple[int, Any]:
    """Return the constant part of a place, and what is left of it; zero where it has none."""
    if isinstance(place, int):
        return place, 0
    zeros = {var: tir.const(0, var.dtype) for var in variables_of(place)}
    analyzer = tvm.arith.Analyzer()
    known = analyzer.simplify(tir.stmt_functor.substitute(place, zeros))
    if not isinstance(known, tir.IntImm):
        return 0, place
    return int(known), analyzer.simplify(place - known)
