"""Leave loops to single elements where TVM's vectorizer would lose a bound value's loop variable.

What a vector cannot hold, TVM gives back to a loop over its lanes, statement by statement. The
value that a ``LetStmt`` binds is no statement: it stays as it was, lane and all, and the loop that
counted the lane is gone ("variables [lane] are used, but are not passed in"). Reductions to two
numbers bind such values: an ArgMin over padded rows.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir


def leave_undivided_lets() -> Any:
    """Return the TIR pass that makes such loops serial; it runs before TVM makes vectors."""

    def undivided(loop: Any) -> Any:
        if loop.kind != tir.ForKind.VECTORIZED or not _binds(loop.body) or not _is_lost(loop):
            return None
        return tir.For(
            loop.loop_var, loop.min, loop.extent, tir.ForKind.SERIAL, loop.body, None, {}
        )

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.LeaveUndividedLets")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(func.body, None, undivided, ["tir.For"])
        return func.with_body(body)

    return run


def _binds(body: Any) -> bool:
    found: list[Any] = []
    # Callbacks for bindings only: the body may be large.
    tir.stmt_functor.ir_transform(body, found.append, None, ["tir.LetStmt"])
    return bool(found)


def _is_lost(loop: Any) -> bool:
    """Ask TVM itself: tell whether its vectors of `loop` still read the loop's variable."""
    alone = tvm.IRModule({"main": tir.PrimFunc([], loop)})
    vectors = tir.transform.VectorizeLoop()(alone)["main"].body
    return loop.loop_var in set(tir.analysis.undefined_vars(vectors))
