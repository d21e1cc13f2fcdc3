"""What computes the data that a window moves over: pieces put together, or work on each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.channel_pools.places import Place, each_vector, place_in, store_at
from tvm_fusionx.schedules.channel_pools.window import OUTER_AXES, Before
from tvm_fusionx.tir.block import loads_of
from tvm_fusionx.tir.flat_access import cases_of


def each_piece(
    ib: Any, before: Before, outer: tuple[Any, Any], emit: Callable[[Any, list[Any]], None]
) -> None:
    """Emit what there is to do for a channel, for each of the values that compute some channels.

    Which piece a channel comes from is asked once, not for each element.

    Parameters
    ----------
    outer
        Image and channel.
    emit
        Takes a value, and the variables that count its planes, rows and columns.
    """
    stage = before.stage
    at = {
        it.var: tir.Cast(it.var.dtype, index) for it, index in zip(stage.iters, outer, strict=False)
    }
    moving = [it.var for it in stage.iters[OUTER_AXES:]]
    rest = tir.stmt_functor.substitute(stage.block.body.value, at)
    with ExitStack() as stack:
        while (cases := cases_of(rest)) and not _depends(cases[0], moving):
            condition, value, rest = cases
            with ib.if_scope(condition):
                emit(value, moving)
            stack.enter_context(ib.else_scope())
        emit(rest, moving)


def place_of(value: Any, moving: list[Any], size: tuple[int, ...]) -> Place | None:
    """Return where a channel of `value` lies in memory; None where it has to be computed.

    Parameters
    ----------
    moving
        The variables that count planes, rows and columns of the value.
    size
        How many there are of each.
    """
    if not isinstance(value, tir.BufferLoad) or not _is_read_in_order(value, moving, size):
        return None
    return place_in(value.buffer, *value.indices[: -len(moving)])


def fill(
    ib: Any, data: Place, value: Any, moving: list[Any], size: tuple[int, ...], lanes: int
) -> None:
    """Store `value`, a function of the variables `moving`, for all elements of a channel."""
    counted = _counted_across_rows(value, moving, size)
    if counted is not None:
        lane = tir.Var("lane", "int32")
        each_vector(
            ib,
            math.prod(size),
            lanes,
            lambda at, lanes: tir.For(
                lane,
                0,
                lanes,
                tir.ForKind.VECTORIZED,
                store_at(data, at + lane, counted(at + lane)),
            ),
        )
        return
    at = moving[0]
    for var, extent in zip(moving[1:], size[1:], strict=True):
        at = at * extent + var
    stmt = store_at(data, at, value)
    for var, extent in reversed(list(zip(moving, size, strict=True))):
        stmt = tir.For(var, 0, tir.Cast(var.dtype, extent), tir.ForKind.SERIAL, stmt)
    ib.emit(stmt)


def _depends(value: Any, variables: list[Any]) -> bool:
    return not set(tir.analysis.undefined_vars(value)).isdisjoint(variables)


def _is_read_in_order(load: Any, moving: list[Any], size: tuple[int, ...]) -> bool:
    """Tell whether `load` reads a whole channel of its buffer, element after element."""
    shape = tuple(int(extent) for extent in load.buffer.shape[-len(moving) :])
    last = load.indices[-len(moving) :]
    return shape == size and all(
        index.same_as(var) for index, var in zip(last, moving, strict=True)
    )


def _counted_across_rows(
    value: Any, moving: list[Any], size: tuple[int, ...]
) -> Callable[[Any], Any] | None:
    """Return `value` as a function of the place in a channel; None where rows are told apart."""
    if not all(_is_read_in_order(load, moving, size) for load in loads_of(value)):
        return None
    place = tir.Var("place", "int32")

    def replaced(load: Any) -> Any:
        outer = load.indices[: -len(moving)]
        return tir.BufferLoad(load.buffer, [*outer, *[0] * (len(moving) - 1), place])

    stmt = tir.stmt_functor.ir_transform(tir.Evaluate(value), None, replaced, ["tir.BufferLoad"])
    if _depends(stmt.value, moving):
        return None
    return lambda at: tir.stmt_functor.substitute(stmt.value, {place: at})
