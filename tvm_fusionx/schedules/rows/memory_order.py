"""Sums over what a reshape has flattened, taken in the order in which it lies in memory.

The flat axis of chunks of channels jumps from chunk to chunk of a line, ``x[k // 16, ..., k % 16]``
being computed anew for each number. A sum is the same in any order: its axes become those of the
tensor that it reads.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import arith, tir

from tvm_fusionx.schedules.rows.lane_reductions import (
    Nest,
    Row,
    Split,
    why_not_in_parts,
    with_split_stages,
)
from tvm_fusionx.tir.block import Iter, Stage, loads_of
from tvm_fusionx.tir.index_maps import variables_of


def sum_in_memory_order(func: Any) -> Any:
    """Return `func` with flat sums of whole tensors along the tensors' own axes."""
    return with_split_stages(func, _in_memory_order)


def drop_proved_choices(func: Any) -> Any:
    """Return an unscheduled `func` without conditions that hold wherever their stage asks them.

    Padding that pads nothing keeps them: a vector of lanes would ask each.
    """
    analyzer = arith.Analyzer()

    def bind(node: Any) -> None:
        if isinstance(node, tir.Block):
            for it in node.iter_vars:
                analyzer.bind(it.var, it.dom)

    def choose(node: Any) -> Any:
        if isinstance(node, tir.Call) and node.op.name == "tir.if_then_else":
            return node.args[1] if _holds(node.args[0], analyzer) else None
        return None

    body = tir.stmt_functor.ir_transform(func.body, bind, choose, ["tir.Block", "tir.Call"])
    return func.with_body(body)


def _holds(condition: Any, analyzer: Any) -> bool:
    if isinstance(condition, tir.And):
        return _holds(condition.a, analyzer) and _holds(condition.b, analyzer)
    return bool(analyzer.can_prove(condition))


def _in_memory_order(stage: Stage) -> Split | None:
    """Return the stage that takes the place of a flat sum; None where it is none."""
    if why_not_in_parts(stage) is not None:
        return None
    reduced = [it for it in stage.iters if it.is_reduction and it.extent > 1]
    sizes = _sizes_of_places(stage, reduced)
    if sizes is None:
        return None
    row, variables = Row(stage), {it.var for it in reduced}
    nest = Nest(row.spatial, row.dtype)
    nest.mapping |= {it.var: row.const(0) for it in row.reduced if it.extent == 1}
    axes = {at: nest.reduce(f"along{at}", size) for at, size in sizes.items()}

    def move(load: Any) -> Any:
        if not _moving(load, variables):
            return None
        indices = [axes.get(at, index) for at, index in enumerate(load.indices)]
        return tir.BufferLoad(load.buffer, indices)

    term = tir.Evaluate(tir.stmt_functor.substitute(stage.block.body.value.b, nest.mapping))
    term = tir.stmt_functor.ir_transform(term, None, move, ["tir.BufferLoad"])
    if variables_of(term.value) & variables:
        return None
    return [row.total(nest, term.value)], []


def _sizes_of_places(stage: Stage, reduced: list[Iter]) -> dict[int, int] | None:
    """Return the sizes of the axes, by number, of which a flat sum reads every place once.

    None where it reads several tensors or different places, or not the whole of these axes; and
    where it runs along them already.
    """
    variables = {it.var for it in reduced}
    term = stage.block.body.value.b
    moving = [(load, _moving(load, variables)) for load in loads_of(term)]
    moving = [(load, indices) for load, indices in moving if indices]
    if not moving:
        return None
    load, places = moving[0]
    if all(isinstance(index, tir.Var) for index in places.values()):
        return None
    # Windows begin where their row says.
    if any(variables_of(index) - variables for index in places.values()):
        return None
    sizes = {at: int(load.buffer.shape[at]) for at in places}
    for other, indices in moving[1:]:
        # The loops of products, of two tensors, suit both.
        if not other.buffer.same_as(load.buffer) or not all(
            at in indices and tvm.ir.structural_equal(indices[at], index)
            for at, index in places.items()
        ):
            return None
    if math.prod(sizes.values()) != math.prod(it.extent for it in reduced):
        return None
    domains = {it.var: _domain(it) for it in reduced}
    found = arith.detect_iter_map(list(places.values()), domains, True, "bijective")
    return sizes if len(found.indices) == len(sizes) else None


def _moving(load: Any, variables: set[Any]) -> dict[int, Any]:
    """Return the indices of a load that depend on `variables`, by their axis."""
    indices = enumerate(load.indices)
    return {at: index for at, index in indices if variables_of(index) & variables}


def _domain(it: Iter) -> Any:
    dtype = it.var.dtype
    return tvm.ir.Range.from_min_extent(tir.const(0, dtype), tir.const(it.extent, dtype))
