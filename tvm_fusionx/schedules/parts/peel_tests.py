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
VECTOR_SUFFIX = "_vector"

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
    whole = _test_of_last(inner.predicate, loops, ranges)
    if not _follows(inner.predicate, whole, loops, ranges):
        return None
    every = _nest(inner, loops, tir.const(True, "bool"))
    innermost = loops[-1]
    if innermost.kind != tir.ForKind.VECTORIZED or len(loops) == 1:
        return tir.IfThenElse(whole, every, _nest(inner, loops, inner.predicate, REST_SUFFIX))
    # Of a tile that is not whole, most vectors are.
    *around, vector = loops
    whole_vector = _test_of_last(inner.predicate, [vector], ranges)
    rest = tir.IfThenElse(
        whole_vector,
        _nest(inner, [vector], tir.const(True, "bool"), VECTOR_SUFFIX),
        _nest(inner, [vector], inner.predicate, REST_SUFFIX),
    )
    return tir.IfThenElse(whole, every, _loops_around(rest, around, inner.block))


def _test_of_last(predicate: Any, loops: list[Any], ranges: dict[Any, Any]) -> Any:
    """Return what `predicate` says of the largest indices of `loops`.

    It is to be put as `predicate` is where it is proved from this: without the modulo of a variable
    that stays below.
    """
    last = {loop.loop_var: loop.min + loop.extent - 1 for loop in loops}
    return _knowing(ranges).simplify(tir.stmt_functor.substitute(predicate, last))


def _knowing(ranges: dict[Any, Any]) -> tvm.arith.Analyzer:
    analyzer = tvm.arith.Analyzer()
    for variable, domain in ranges.items():
        analyzer.bind(variable, domain)
    return analyzer


def _nest(inner: Any, loops: list[Any], predicate: Any, suffix: str = "") -> Any:
    """Return `loops` around `inner` with another test; element by element where there is one."""
    if not suffix:
        stmt: Any = tir.BlockRealize(inner.iter_values, predicate, inner.block)
        for loop in reversed(loops):
            stmt = tir.For(loop.loop_var, loop.min, loop.extent, loop.kind, stmt)
        return stmt
    stmt = tir.BlockRealize(inner.iter_values, predicate, _copy_of(inner.block, suffix))
    if _is_true(predicate):
        return _loops_around(stmt, loops, inner.block, keep=True)
    return _loops_around(stmt, loops, inner.block)


def _loops_around(stmt: Any, loops: list[Any], block: Any, *, keep: bool = False) -> Any:
    """Return copies of `loops` around `stmt`, of their own kinds or element by element."""
    for loop in reversed(loops):
        variable = tir.Var(loop.loop_var.name, loop.loop_var.dtype)
        stmt = tir.stmt_functor.substitute(stmt, {loop.loop_var: variable})
        kind = loop.kind if keep else _kind_of_rest(loop, block)
        stmt = tir.For(variable, loop.min, loop.extent, kind, stmt)
    return stmt


def move_test_into_body(func: Any, stage: str) -> Any:
    """Return an unscheduled `func` whose `stage` tests what it writes itself, not around itself.

    TVM takes a stage with a test of several of its axes around it for one whose axes depend on one
    another, and refuses to order its loops. :func:`move_test_around` is the way back.
    """

    def moved(realize: Any) -> Any:
        if realize.block.name_hint != stage or _is_true(realize.predicate):
            return None
        axes = {
            value: it.var
            for value, it in zip(realize.iter_values, realize.block.iter_vars, strict=True)
            if isinstance(value, tir.Var)
        }
        test = tir.stmt_functor.substitute(realize.predicate, axes)
        body = tir.IfThenElse(test, realize.block.body, None)
        return tir.BlockRealize(
            realize.iter_values, tir.const(True, "bool"), _with_body(realize.block, body)
        )

    return _changed(func, moved)


def move_test_around(func: Any, stage: str) -> Any:
    """Return a scheduled `func` with the test that `stage` makes itself around it."""

    def moved(realize: Any) -> Any:
        body = realize.block.body
        if realize.block.name_hint != stage or not isinstance(body, tir.IfThenElse):
            return None
        axes = {
            it.var: value
            for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        }
        test = tir.stmt_functor.substitute(body.condition, axes)
        block = _with_body(realize.block, body.then_case)
        return tir.BlockRealize(realize.iter_values, test, block)

    return _changed(func, moved)


def _changed(func: Any, moved: Any) -> Any:
    return func.with_body(
        tir.stmt_functor.ir_transform(func.body, None, moved, ["tir.BlockRealize"])
    )


def _with_body(block: Any, body: Any) -> Any:
    return tir.Block(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


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
    inside = {loop.loop_var: tvm.ir.Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    analyzer = _knowing(ranges | inside)
    with analyzer.constraint_scope(whole):
        return bool(analyzer.can_prove(predicate))


def _copy_of(block: Any, suffix: str) -> Any:
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
        block.name_hint + suffix,
        tir.stmt_functor.substitute(block.body, fresh),
        annotations=block.annotations,
    )
