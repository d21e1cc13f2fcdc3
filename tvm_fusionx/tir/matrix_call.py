"""Instructions that multiply two small matrices, as TIR calls them.

LLVM's intrinsic for bfloat16 takes vectors of ``bfloat``, of which TVM makes 16-bit integers: so a
function of LLVM's assembly that takes those stands between.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.tir.brain_floats import bits_of, is_brain
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

# Sums of one instruction.
LANES = 4

FUNCTION = "fusionx_multiply_brains"

_LLVM = """
declare <4 x float> @{intrinsic}(<4 x float>, <8 x bfloat>, <8 x bfloat>)

define <4 x float> @{function}(<4 x float> %sums, <8 x i16> %rows, <8 x i16> %columns) {{
  %left = bitcast <8 x i16> %rows to <8 x bfloat>
  %right = bitcast <8 x i16> %columns to <8 x bfloat>
  %sum = call <4 x float> @{intrinsic}(<4 x float> %sums, <8 x bfloat> %left, <8 x bfloat> %right)
  ret <4 x float> %sum
}}
"""


def held(vector: Any) -> Any:
    """Return a vector as registers hold it: of bfloat16 the bits, as ``uint16``."""
    return bits_of(vector) if is_brain(vector.dtype) else vector


def matrix_call(instruction: DotInstruction, sums: Any, rows: Any, columns: Any) -> Any:
    """Return `sums` and the products of two rows and two columns.

    Parameters
    ----------
    instruction
        Multiplies two rows at once.
    sums
        Four: those of the first row, and those of the second.
    rows, columns
        As :func:`held` has them, one row or column behind the other. What calls this for bfloat16
        has to be within :func:`with_matrix_calls`.
    """
    dtype = f"{instruction.sums}x{LANES}"
    if is_brain(instruction.data):
        return tir.call_pure_extern(dtype, FUNCTION, sums, rows, columns)
    operands = sums, rows, columns
    count = tir.const(len(operands), "uint32")
    return tir.call_llvm_pure_intrin(dtype, instruction.name_for(LANES), count, *operands)


def with_matrix_calls(body: Any, instruction: DotInstruction | None) -> Any:
    """Return a statement with the function that :func:`matrix_call` calls, where it does."""
    if instruction is None or not is_brain(instruction.data) or not _calls(body):
        return body
    name = instruction.name_for(LANES)
    return with_llvm_functions(body, _LLVM.format(intrinsic=name, function=FUNCTION))


def _calls(body: Any) -> bool:
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Call) and getattr(node.op, "name", "") == "tir.call_pure_extern":
            found.append(str(node.args[0].value) == FUNCTION)

    tir.stmt_functor.post_order_visit(body, visit)
    return any(found)
