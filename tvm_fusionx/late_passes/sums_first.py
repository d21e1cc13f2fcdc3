"""Keep LLVM from loading ahead of sums in a long line of code.

LLVM takes a load for something to begin early. Where the loaded vectors are converted, and one load
makes two registers of what it read, a tile that multiplies thirty vectors wants more registers than
there are: LLVM writes vectors to the stack that it had only just loaded. An empty line of assembly
through which a sum passes is no instruction, and holds the order: the sum's products come before
it, and what is loaded behind it comes after.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import tir

from tvm_fusionx.tir.llvm_functions import with_llvm_functions

FUNCTION = "fusionx_sum_first"

# `w` is a register of floats and vectors (LLVM Language Reference, constraint codes of AArch64).
# `sideeffect` keeps loads and stores on their side of it.
_LLVM = f"""
define i32 @{FUNCTION}(ptr %place) {{
  %sum = load <4 x float>, ptr %place, align 4
  %same = call <4 x float> asm sideeffect "", "=w,0"(<4 x float> %sum)
  store <4 x float> %same, ptr %place, align 4
  ret i32 0
}}
"""

# Lanes of the function above.
LANES = 4


def is_sum(store: Any) -> bool:
    """Tell whether a store leaves one vector of float32 in a buffer of a kernel's registers."""
    is_local = store.buffer.scope() == "local"
    return is_local and str(store.value.dtype) == f"float32x{LANES}" and len(store.indices) == 1


def sums_first(stores: Iterable[Any]) -> list[Any]:
    """Return statements behind which what `stores` left in registers is there; for AArch64.

    They have to be within :func:`with_sums_first`.
    """
    found = {}
    for store in stores:
        (index,) = store.indices
        first = index.base if isinstance(index, tir.Ramp) else index
        place = tir.address_of(tir.BufferLoad(store.buffer, [first]))
        found[store.buffer.data, str(first)] = tir.call_extern("int32", FUNCTION, place)
    return [tir.Evaluate(call) for call in found.values()]


def with_sums_first(body: Any) -> Any:
    """Return a statement with the function that the statements of :func:`sums_first` call."""
    return with_llvm_functions(body, _LLVM)
