"""The passes that put polynomials in the place of libm calls.

The first runs before TVM makes vectors of loops. TVM takes an ``erf`` for what has no vectors, and
leaves its loop for LLVM to find, which finds most; an operation of ours that means the same has
vectors. The second runs after lowering. Each statement with such a call becomes straight-line
arithmetic on whole vectors. Intermediate values go through one-element buffers, which LLVM keeps in
registers: a TIR ``Let`` would do the same, but LLVM 22 rejects it, and repeating the expression
would grow it exponentially.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx._tvm.registry import register_pure_intrinsic
from tvm_fusionx.late_passes.error_functions import ERF_OF_VECTORS, ONE_PLUS_ERF
from tvm_fusionx.late_passes.let_nans_through import extremes_by_instruction
from tvm_fusionx.late_passes.polynomials import FUNCTIONS, number, replacement
from tvm_fusionx.late_passes.small_buffers_on_stack import ON_STACK


def name_vector_functions() -> Any:
    """Return the TIR pass that tells TVM which functions vectors have, before there are any."""
    for name in (ERF_OF_VECTORS, ONE_PLUS_ERF):
        register_pure_intrinsic(name)

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
    of_normals = extremes_keep_nan and flushes

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.VectoriseMathematics")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if not _calls_of(func.body):
            return func
        # The innermost is of the parallel loop whose body is walked through: what a thread holds
        # is its own.
        line = functools.partial(
            StraightLine, of_normals=of_normals, bounds_keep_nan=extremes_keep_nan
        )
        scopes = [line()]

        def enter(node: Any) -> None:
            if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
                scopes.append(line())

        def leave(node: Any) -> Any:
            if isinstance(node, tir.BufferStore):
                return scopes[-1].rewrite(node)
            if node.kind != tir.ForKind.PARALLEL:
                return None
            body = scopes.pop().around(node.body)
            return tir.For(
                node.loop_var, node.min, node.extent, node.kind, body, None, node.annotations
            )

        body = tir.stmt_functor.ir_transform(
            func.body, enter, leave, ["tir.BufferStore", "tir.For"]
        )
        body = scopes.pop().around(body)
        return func.with_body(extremes_by_instruction(body) if extremes_keep_nan else body)

    return run


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
    """Statements that compute intermediate values, in order, before each store of one scope.

    Every store begins with the same buffers again, and what stands before it for one function of
    mathematics is made once: an unrolled kernel has hundreds of such stores.
    """

    def __init__(self, *, of_normals: bool = False, bounds_keep_nan: bool = False) -> None:
        self._of_normals = of_normals
        self._bounds_keep_nan = bounds_keep_nan
        self._buffers: dict[str, list[Any]] = {}
        self._known: dict[Any, tuple[list[Any], Any, Counter[str]]] = {}
        # Of the store at hand.
        self._statements: list[Any] = []
        self._used: Counter[str] = Counter()

    def rewrite(self, store: Any) -> Any | None:
        """Return the statements of a store with such calls; None where it stays as it is."""
        statement = tir.Evaluate(store.value)
        if not _calls_of(statement) or _has_guard(statement):
            # A value computed early could read what the guard protects.
            return None
        if self._bounds_keep_nan:
            statement = tir.stmt_functor.ir_transform(statement, None, _with_one, ["tir.Add"])
        changed = tir.stmt_functor.ir_transform(statement, None, self._replace, ["tir.Call"])
        return self.ending(tir.BufferStore(store.buffer, changed.value, store.indices))

    def ending(self, last: Any) -> Any:
        """Return what was held since the last time, followed by `last`, which reads it."""
        before, self._statements, self._used = self._statements, [], Counter()
        # A sequence of one statement is an error in TVM.
        return tir.SeqStmt([*before, last]) if before else last

    def around(self, body: Any) -> Any:
        """Return the scope's body with the buffers allocated around."""
        annotations = {ON_STACK: tir.const(True, "bool")}
        for buffer in itertools.chain.from_iterable(self._buffers.values()):
            body = tir.Allocate(
                buffer.data, buffer.dtype, [1], tir.const(True, "bool"), body, annotations
            )
        return body

    def hold(self, expr: Any) -> Any:
        """Compute `expr` into a buffer of one element; return its load."""
        if isinstance(expr, (tir.FloatImm, tir.IntImm)):
            return expr
        if isinstance(expr, tir.BufferLoad) and self._place(expr) is not None:
            return expr
        own = self._buffers.setdefault(expr.dtype, [])
        place = self._used[expr.dtype]
        self._used[expr.dtype] += 1
        if place == len(own):
            data = tir.Var("held", tvm.ir.PointerType(tvm.ir.PrimType(expr.dtype), "local"))
            own.append(tir.decl_buffer((1,), expr.dtype, "held", data=data, scope="local"))
        self._statements.append(tir.BufferStore(own[place], expr, [0]))
        return tir.BufferLoad(own[place], [0])

    def _place(self, load: Any) -> int | None:
        """Return which of the buffers is read; None where it is none of them."""
        own = self._buffers.get(load.dtype, [])
        return next((n for n, each in enumerate(own) if load.buffer.same_as(each)), None)

    def _replace(self, call: Any) -> Any | None:
        function = replacement(call, of_normals=self._of_normals)
        if function is None:
            return None
        x = self.hold(call.args[0])
        if isinstance(x, tir.FloatImm):
            return function(x, self.hold)
        # What is read, and where the values come to lie, decides which statements these are.
        key = (function, x.dtype, self._place(x), frozenset(self._used.items()))
        if key not in self._known:
            before = len(self._statements)
            result = function(x, self.hold)
            self._known[key] = self._statements[before:], result, self._used.copy()
            return result
        statements, result, used = self._known[key]
        self._statements += statements
        self._used = used.copy()
        return result


def _with_one(node: Any) -> Any | None:
    """Return one and an error function as one call; None of another sum."""
    for call, other in ((node.a, node.b), (node.b, node.a)):
        name = getattr(getattr(call, "op", None), "name", "")
        if name in ("tir.erf", ERF_OF_VECTORS) and number(other) == 1:
            return tir.call_intrin(call.dtype, ONE_PLUS_ERF, *call.args)
    return None


def _has_guard(statement: Any) -> bool:
    found = False

    def visit(call: Any) -> None:
        nonlocal found
        if getattr(call.op, "name", "") == "tir.if_then_else" and _calls_of(tir.Evaluate(call)):
            found = True

    tir.stmt_functor.ir_transform(statement, visit, None, ["tir.Call"])
    return found
