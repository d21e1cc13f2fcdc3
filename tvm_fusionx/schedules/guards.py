"""Tests that only the last tile needs, made once a tile and not once an element.

A stage that writes fewer columns than its register tiles hold is scheduled by TVM with a test of
every element, which keeps its loops from being vectors. Here the loops of such a stage are written
twice: as they are but without the test, for tiles that are whole, and element by element for the
last one.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

REST_SUFFIX = "_rest"

# Scope of buffers that templates mean to be registers.
REGISTERS = "local"

_TILE_KINDS = (tir.ForKind.VECTORIZED, tir.ForKind.UNROLLED, tir.ForKind.SERIAL)


def guard_whole_tiles(func: Any) -> Any:
    """Return a scheduled `func` in which a tested vector loop runs without tests where all hold.

    Only loops that hold nothing but the tested stage are written twice; a test that does not follow
    from the one for the largest indices stays where it is.
    """
    ranges: dict[Any, Any] = {}

    def enter(loop: Any) -> Any:
        ranges[loop.loop_var] = tvm.ir.Range.from_min_extent(loop.min, loop.extent)
        # What is returned here is not entered any more: the outermost loop of a nest counts.
        return _guarded(loop, ranges)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, enter, None, ["tir.For"]))


def _guarded(top: Any, ranges: dict[Any, Any]) -> Any | None:
    loops = []
    inner = top
    while isinstance(inner, tir.For):
        if inner.kind not in _TILE_KINDS:
            return None
        loops.append(inner)
        inner = inner.body
    if not isinstance(inner, tir.BlockRealize) or _is_true(inner.predicate):
        return None
    if not any(loop.kind == tir.ForKind.VECTORIZED for loop in loops):
        return None
    last = {loop.loop_var: loop.min + loop.extent - 1 for loop in loops}
    whole = tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(inner.predicate, last))
    if not _follows(inner.predicate, whole, loops, ranges):
        return None
    every = tir.BlockRealize(inner.iter_values, tir.const(True, "bool"), inner.block)
    rest: Any = tir.BlockRealize(inner.iter_values, inner.predicate, _copy_of(inner.block))
    for loop in reversed(loops):
        every = tir.For(loop.loop_var, loop.min, loop.extent, loop.kind, every)
        variable = tir.Var(loop.loop_var.name, loop.loop_var.dtype)
        rest = tir.stmt_functor.substitute(rest, {loop.loop_var: variable})
        rest = tir.For(variable, loop.min, loop.extent, _kind_of_rest(loop, inner.block), rest)
    return tir.IfThenElse(whole, every, rest)


def _kind_of_rest(loop: Any, block: Any) -> int:
    """Return how the elements of the last tile are run through.

    A tile in registers can only be read at places that are known when it is compiled.
    """
    in_registers = any(region.buffer.scope() == REGISTERS for region in block.reads)
    return int(tir.ForKind.UNROLLED if in_registers else tir.ForKind.SERIAL)


def _is_true(predicate: Any) -> bool:
    return isinstance(predicate, tir.IntImm) and predicate.value == 1


def _follows(predicate: Any, whole: Any, loops: list[Any], ranges: dict[Any, Any]) -> bool:
    """Tell whether `predicate` holds everywhere in `loops` where `whole` does."""
    analyzer = tvm.arith.Analyzer()
    inside = {loop.loop_var: tvm.ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    for variable, domain in (ranges | inside).items():
        analyzer.bind(variable, domain)
    with analyzer.constraint_scope(whole):
        return bool(analyzer.can_prove(predicate))


def _copy_of(block: Any) -> Any:
    """Return a block with block variables of its own, as TVM wants every block to have."""
    fresh = {it.var: tir.Var(it.var.name, it.var.dtype) for it in block.iter_vars}

    def moved(regions: Any) -> list[Any]:
        return [
            tir.BufferRegion(
                region.buffer,
                [
                    tvm.ir.Range.from_min_extent(
                        tir.stmt_functor.substitute(each.min, fresh),
                        tir.stmt_functor.substitute(each.extent, fresh),
                    )
                    for each in region.region
                ],
            )
            for region in regions
        ]

    return tir.Block(
        [tir.IterVar(it.dom, fresh[it.var], it.iter_type) for it in block.iter_vars],
        moved(block.reads),
        moved(block.writes),
        block.name_hint + REST_SUFFIX,
        tir.stmt_functor.substitute(block.body, fresh),
        annotations=block.annotations,
    )
