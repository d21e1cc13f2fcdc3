"""The passes that put polynomials in the place of libm calls.

The first runs before TVM makes vectors of loops. TVM takes an ``erf`` for what has no vectors, and
leaves its loop for LLVM to find, which finds most; an operation of ours that means the same has
vectors. The second runs after lowering. Each statement with such a call becomes straight-line
arithmetic on whole vectors. Intermediate values go through one-element buffers, which LLVM keeps in
registers: a TIR ``Let`` would do the same, but LLVM 22 rejects it, and repeating the expression
would grow it exponentially.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx._tvm.registry import register_pure_intrinsic
from tvm_fusionx.late_passes.let_nans_through import extremes_by_instruction
from tvm_fusionx.late_passes.polynomials import ERF_OF_VECTORS, FUNCTIONS, replacement
from tvm_fusionx.late_passes.small_buffers_on_stack import ON_STACK


def name_vector_functions() -> Any:
    """Return the TIR pass that tells TVM which functions vectors have, before there are any."""
    register_pure_intrinsic(ERF_OF_VECTORS)

    return _pass_over_stores("tvm_fusionx.NameVectorFunctions", _rename_in_store)


def _rename_in_store(store: Any) -> Any:
    statement = tir.Evaluate(store.value)
    # What stands in a branch may become a libm call again, which no vector has.
    if not _calls_of(statement) or _has_branch(statement):
        return None

    def rename(call: Any) -> Any:
        if getattr(call.op, "name", "") != "tir.erf" or call.dtype != "float32":
            return None
        return tir.call_intrin(call.dtype, ERF_OF_VECTORS, *call.args)

    changed = tir.stmt_functor.ir_transform(statement, None, rename, ["tir.Call"])
    return tir.BufferStore(store.buffer, changed.value, store.indices)


def _has_branch(statement: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        is_select = isinstance(node, tir.Select)
        found = found or is_select or getattr(node.op, "name", "") == "tir.if_then_else"

    tir.stmt_functor.ir_transform(statement, visit, None, ["tir.Call", "tir.Select"])
    return found


def vectorise_mathematics(extremes_keep_nan: bool = False, flushes: bool = False) -> Any:
    """Return the TIR pass that replaces libm calls by polynomials, after lowering.

    Parameters
    ----------
    extremes_keep_nan
        Whether the processor has an instruction that keeps a NaN of either operand of a maximum:
        bounds of polynomials, which keep a NaN or let it go, are that instruction.
    flushes
        Whether kernels take denormal numbers for zero.
    """

    def rewrite(store: Any) -> Any:
        changed = _rewrite_store(store, of_normals=extremes_keep_nan and flushes)
        return extremes_by_instruction(changed) if extremes_keep_nan and changed else changed

    return _pass_over_stores("tvm_fusionx.VectoriseMathematics", rewrite)


def _pass_over_stores(name: str, rewrite: Callable[[Any], Any]) -> Any:
    """Return a TIR pass that rewrites the stores of functions that call mathematics."""

    @tir.transform.prim_func_pass(opt_level=0, name=name)
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if not _calls_of(func.body):
            return func
        return func.with_body(
            tir.stmt_functor.ir_transform(func.body, None, rewrite, ["tir.BufferStore"])
        )

    return run


def calls_mathematics(stmt: Any) -> bool:
    """Tell whether a statement calls functions that become straight-line arithmetic."""
    return bool(_calls_of(stmt))


def _calls_of(stmt: Any) -> list[Any]:
    """Return the calls in `stmt` that have a replacement."""
    found: list[Any] = []

    def visit(call: Any) -> None:
        name = getattr(call.op, "name", "")
        if name in FUNCTIONS or name == "tir.pow":
            found.append(call)

    tir.stmt_functor.ir_transform(stmt, visit, None, ["tir.Call"])
    return found


class StraightLine:
    """Statements that compute intermediate values, in order, before a store."""

    def __init__(self) -> None:
        self.statements: list[Any] = []
        self.buffers: list[Any] = []

    def hold(self, expr: Any) -> Any:
        """Compute `expr` into a buffer of one element; return its load."""
        if isinstance(expr, (tir.FloatImm, tir.IntImm)):
            return expr
        data = tir.Var("held", tvm.ir.PointerType(tvm.ir.PrimType(expr.dtype), "local"))
        buffer = tir.decl_buffer((1,), expr.dtype, "held", data=data, scope="local")
        self.buffers.append(buffer)
        self.statements.append(tir.BufferStore(buffer, expr, [0]))
        return tir.BufferLoad(buffer, [0])

    def wrap(self, last: Any) -> Any:
        """Return the statements followed by `last`, with their buffers allocated around."""
        if not self.statements:
            return last  # a sequence of one statement is an error in TVM
        body: Any = tir.SeqStmt([*self.statements, last])
        annotations = {ON_STACK: tir.const(True, "bool")}
        for buffer in self.buffers:
            body = tir.Allocate(
                buffer.data, buffer.dtype, [1], tir.const(True, "bool"), body, annotations
            )
        return body


def _rewrite_store(store: Any, *, of_normals: bool) -> Any:
    statement = tir.Evaluate(store.value)
    if not _calls_of(statement):
        return None
    if _has_guard(statement):
        # A value computed early could read what the guard protects.
        return None
    line = StraightLine()

    def rewrite(call: Any) -> Any:
        return replacement(call, line.hold, of_normals=of_normals)

    changed = tir.stmt_functor.ir_transform(statement, None, rewrite, ["tir.Call"])
    return line.wrap(tir.BufferStore(store.buffer, changed.value, store.indices))


def _has_guard(statement: Any) -> bool:
    found = False

    def visit(call: Any) -> None:
        nonlocal found
        if getattr(call.op, "name", "") == "tir.if_then_else" and _calls_of(tir.Evaluate(call)):
            found = True

    tir.stmt_functor.ir_transform(statement, visit, None, ["tir.Call"])
    return found
