"""Dot products of short integers: one operation of TIR, and the instruction it becomes.

``dot(a0, .., b0, ..)`` is the sum of ``int32(a_i) * int32(b_i)``. To a schedule it is what a
multiplication is in a product of floats: `depth` integers that lie side by side take the place of
one float, so tiles, panels and their costs are the same. After lowering, when loops are vectors, it
becomes the processor's own instruction, or plain arithmetic where the operands do not lie as one
needs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx._tvm_registry import register_pure_intrinsic

DOT_OPERATION = "tir.fusionx_dot"

SUM = "int32"


@dataclass(frozen=True)
class DotInstruction:
    """A vector instruction that adds dot products of `depth` integers to 32-bit sums."""

    data: str
    """Element type of the operand that is broadcast."""

    weights: str
    """Element type of the operand that is loaded as vectors."""

    depth: int
    """Products that are added to one sum; together they have its 32 bits."""

    by_lanes: tuple[tuple[int, str], ...]
    """LLVM's name of the instruction for each number of sums in a vector."""

    takes_sum: bool
    """Whether the instruction adds to a sum itself; else an addition follows it."""

    def name_for(self, lanes: int) -> str | None:
        """Return LLVM's name of the instruction for vectors of `lanes` sums, or None."""
        return dict(self.by_lanes).get(lanes)


_VPDPBUSD = "llvm.x86.avx512.vpdpbusd."
_VPDPBUSD_SHORT = ((8, f"{_VPDPBUSD}256"), (4, f"{_VPDPBUSD}128"))
_PMADDWD_SHORT = ((8, "llvm.x86.avx2.pmadd.wd"), (4, "llvm.x86.sse2.pmadd.wd"))

# Bytes times bytes where an instruction multiplies unsigned by signed ones (VNNI) or signed ones
# (Arm). Others multiply 16-bit integers, whose sums of two are exact: the 8-bit `vpmaddubsw`
# saturates at 16 bits, where two products of 255 and 127 do not fit. The first that a processor has
# is used.
INSTRUCTIONS: tuple[tuple[frozenset[str], DotInstruction], ...] = (
    (
        frozenset({"avx512vnni", "avx512vl"}),
        DotInstruction("uint8", "int8", 4, ((16, f"{_VPDPBUSD}512"), *_VPDPBUSD_SHORT), True),
    ),
    (frozenset({"avxvnni"}), DotInstruction("uint8", "int8", 4, _VPDPBUSD_SHORT, True)),
    (
        frozenset({"dotprod"}),
        DotInstruction("int8", "int8", 4, ((4, "llvm.aarch64.neon.sdot.v4i32.v16i8"),), True),
    ),
    (
        frozenset({"avx512bw"}),
        DotInstruction(
            "int16", "int16", 2, ((16, "llvm.x86.avx512.pmaddw.d.512"), *_PMADDWD_SHORT), False
        ),
    ),
    (frozenset({"avx2"}), DotInstruction("int16", "int16", 2, _PMADDWD_SHORT, False)),
)


def instruction_of(features: set[str]) -> DotInstruction | None:
    """Return the first instruction whose features a processor has, by LLVM's names of them."""
    for needed, instruction in INSTRUCTIONS:
        if needed <= features:
            return instruction
    return None


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


def emit_dots(instruction: DotInstruction | None) -> Any:
    """Return the TIR pass that turns the operation into instructions, after lowering."""

    def add(node: Any) -> Any:
        if is_dot_call(node.a):
            return _sum(node.b, node.a, instruction)
        if is_dot_call(node.b):
            return _sum(node.a, node.b, instruction)
        return None

    def call(node: Any) -> Any:
        return _sum(None, node, instruction) if is_dot_call(node) else None

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.EmitDots")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(func.body, add, None, ["tir.Add"])
        body = tir.stmt_functor.ir_transform(body, None, call, ["tir.Call"])
        return func.with_body(body)

    return run


def _sum(total: Any | None, call: Any, instruction: DotInstruction | None) -> Any:
    """Return the instruction for ``total + dot(...)``, or arithmetic where there is none."""
    left, right = sides_of(call)
    lanes = tvm.DataType(call.dtype).lanes
    name = None if instruction is None else instruction.name_for(lanes)
    if instruction is not None and name is not None and len(left) == instruction.depth:
        operands = _side_by_side(left, lanes), _side_by_side(right, lanes)
        if all(operand is not None for operand in operands):
            return _instruction(instruction, name, call.dtype, total, operands)
    products = [
        a.astype(call.dtype) * b.astype(call.dtype) for a, b in zip(left, right, strict=True)
    ]
    for product in products:
        total = product if total is None else total + product
    return total


def _instruction(
    instruction: DotInstruction, name: str, dtype: str, total: Any | None, operands: tuple[Any, ...]
) -> Any:
    arguments = operands
    if instruction.takes_sum:
        lanes = tvm.DataType(dtype).lanes
        start = tir.Broadcast(tir.const(0, SUM), lanes) if total is None else total
        arguments = (start, *operands)
        total = None
    made = tir.call_llvm_pure_intrin(dtype, name, tir.const(len(arguments), "uint32"), *arguments)
    return made if total is None else total + made


def _side_by_side(elements: Sequence[Any], lanes: int) -> Any | None:
    """Return elements of each lane, one lane after the other, as one vector; None if they are not.

    They have to lie side by side in memory, those of neighbouring lanes too unless all lanes have
    the same ones.
    """
    are_shared = all(isinstance(each, tir.Broadcast) for each in elements)
    loads = [each.value if are_shared else each for each in elements]
    if not all(
        isinstance(load, tir.BufferLoad) and load.buffer.same_as(loads[0].buffer) for load in loads
    ):
        return None
    starts = [load.indices[-1] for load in loads]
    depth = len(loads)
    if not are_shared:
        if not all(
            isinstance(start, tir.Ramp)
            and isinstance(start.stride, tir.IntImm)
            and int(start.stride) == depth
            for start in starts
        ):
            return None
        starts = [start.base for start in starts]
    analyzer = tvm.arith.Analyzer()
    if any(
        not analyzer.can_prove_equal(start - starts[0], offset)
        for offset, start in enumerate(starts)
    ):
        return None
    if not are_shared:
        ramp = tir.Ramp(starts[0], 1, depth * lanes)
        return tir.BufferLoad(loads[0].buffer, [*loads[0].indices[:-1], ramp])
    ramp = tir.Ramp(starts[0], 1, depth)
    few = tir.BufferLoad(loads[0].buffer, [*loads[0].indices[:-1], ramp])
    word = tir.call_intrin(SUM, "tir.reinterpret", few)
    whole = f"{loads[0].buffer.dtype}x{depth * lanes}"
    return tir.call_intrin(whole, "tir.reinterpret", tir.Broadcast(word, lanes))
