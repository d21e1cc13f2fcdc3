"""Take vectors of an odd width in pieces that are powers of two.

LLVM carries a vector of another width through a loop element by element: the sums of 12 channels
are taken apart and put together again in every iteration, with more instructions than the products.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

# What needs a name of its own in each copy of a loop's body.
_NAMING = (tir.Allocate, tir.AttrStmt, tir.DeclBuffer, tir.For, tir.Let, tir.LetStmt, tir.While)


def split_odd_vectors(lanes: int) -> Any:
    """Return the TIR pass that cuts vectorised loops wider than `lanes` into powers of two.

    It runs before TVM makes vectors of the loops.
    """

    def split(loop: Any) -> Any:
        if loop.kind != tir.ForKind.VECTORIZED or not isinstance(loop.extent, tir.IntImm):
            return None
        width = int(loop.extent)
        if width <= lanes or width & (width - 1) == 0 or _names_something(loop.body):
            return None
        return tir.SeqStmt([_piece(loop, offset, size) for offset, size in pieces(width)])

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.SplitOddVectors")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, split, ["tir.For"]))

    return run


def pieces(width: int) -> list[tuple[int, int]]:
    """Return offset and size of the powers of two that make up `width`, the largest first."""
    found, offset = [], 0
    while offset < width:
        size = 1 << ((width - offset).bit_length() - 1)
        found.append((offset, size))
        offset += size
    return found


def _piece(loop: Any, offset: int, size: int) -> Any:
    lane = tir.Var(loop.loop_var.name, loop.loop_var.dtype)
    place = tir.const(offset, lane.dtype)
    if size == 1:
        return tir.stmt_functor.substitute(loop.body, {loop.loop_var: place})
    body = tir.stmt_functor.substitute(loop.body, {loop.loop_var: lane + place})
    return tir.For(lane, loop.min, tir.const(size, lane.dtype), loop.kind, body)


def _names_something(body: Any) -> bool:
    found = []
    tir.stmt_functor.post_order_visit(
        body, lambda node: found.append(node) if isinstance(node, _NAMING) else None
    )
    return bool(found)
