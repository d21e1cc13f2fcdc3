"""Split reductions along the contiguous axis into one partial result for each vector lane.

``s = sum_k x[k]`` is a chain of additions, each waiting for the one before. It becomes
``p[l] = sum_k x[k*L + l]``, a vector accumulation, and then halves that are put together,
``q[l] = p[l] + p[l + L/2]`` and so on, until the narrowest vector is left for ``s``. What is left
of a row that is no multiple of L joins the halves as wide as it is: 14 elements as 8, 4 and one by
one. TVM's own ``rfactor`` splits only where L divides the extent, and adds the lanes one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.nest import NARROWEST_VECTOR
from tvm_fusionx.tir.block import Stage, collect_blocks, describe_stage, loads_of
from tvm_fusionx.tir.dot_call import innermost_index
from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.root_block import nests_of, with_root

# A row must hold this many lane groups for the final combination of the lanes to pay.
MIN_GROUPS = 2

# From so many lane groups on a row has several vectors of partial results, as many lanes on any
# processor: they hide the latency of an addition and add up more exactly, for more halves at the
# end.
LONG_ROW_GROUPS = 32
LONG_ROW_LANES = 32

PARTIAL_SUFFIX = "_lanes"

Split = tuple[list[Any], list[Any]]
"""The stages that take the place of one, as statements, and the buffers between them."""

_COMBINERS = (tir.Add, tir.Mul, tir.Max, tir.Min)


def split_lane_reductions(
    func: Any,
    lanes: int,
    keep: frozenset[str] = frozenset(),
    parts: Collection[str] = (),
) -> Any:
    """Return `func` with long contiguous reductions split into `lanes`, but the stages `keep`.

    Rows of at least `LONG_ROW_GROUPS` are split into `LONG_ROW_LANES`. Rows of the stages `parts`
    may lie behind each other along one axis.
    """

    def split(stage: Stage) -> Split | None:
        if stage.name in keep or why_not_split(stage, lanes, stage.name in parts) is not None:
            return None
        is_long = math.prod(stage.reduced) >= LONG_ROW_GROUPS * lanes
        return _split(stage, _whole_chunks(stage, max(lanes, LONG_ROW_LANES) if is_long else lanes))

    return with_split_stages(func, split)


def _whole_chunks(stage: Stage, lanes: int) -> int:
    """Return `lanes`, or as many as the innermost axis has where vectors would span some of it.

    A vector over whole chunks of an axis has the place of each lane computed apart: TVM does not
    see that chunks lie behind each other.
    """
    reduced = [it.extent for it in stage.iters if it.is_reduction and it.extent > 1]
    inner = reduced[-1]
    spans = len(reduced) > 1 and inner < lanes and lanes % inner == 0
    return inner if spans and inner >= NARROWEST_VECTOR else lanes


def with_split_stages(func: Any, split: Callable[[Stage], Split | None]) -> Any:
    """Return `func` with the stages that `split` gives, and buffers between, in a stage's place."""
    found = {block.name_hint: split(describe_stage(block)) for block in collect_blocks(func)}
    if not any(found.values()):
        return func
    buffers = list(func.body.block.alloc_buffers)
    rewritten = []
    for statement in nests_of(func):
        parts = found.get(_block_name(statement))
        if parts is None:
            rewritten.append(statement)
        else:
            rewritten += parts[0]
            buffers += parts[1]
    body = tir.SeqStmt(rewritten) if len(rewritten) > 1 else rewritten[0]
    return with_root(func, body, buffers)


def _block_name(statement: Any) -> str:
    while isinstance(statement, tir.For):
        statement = statement.body
    return str(statement.block.name_hint) if isinstance(statement, tir.BlockRealize) else ""


def why_not_in_parts(stage: Stage) -> str | None:
    """Return why `stage` cannot be summed in parts that are put together, or None."""
    if not stage.is_reduction or len(stage.writes) != 1:
        return "it is not a reduction to one tensor"
    body = stage.block.body
    if not isinstance(body, tir.BufferStore) or not isinstance(stage.block.init, tir.BufferStore):
        return "its body is not a single store"
    value = body.value
    if not isinstance(value, _COMBINERS):
        return "its combiner is not one of add, multiply, max, min"
    own = stage.writes[0].data
    if not (isinstance(value.a, tir.BufferLoad) and value.a.buffer.data.same_as(own)):
        return "it does not accumulate into what it writes"
    if not all(isinstance(index, tir.Var) or _is_zero(index) for index in body.indices):
        return "it does not write by plain indices"
    return None


def why_not_split(stage: Stage, lanes: int, in_parts: bool = False) -> str | None:
    """Return why `stage` keeps its reduction as it is, or None when splitting it pays.

    Of a stage `in_parts` rows are parts of one axis, far apart.
    """
    reason = why_not_in_parts(stage)
    if reason is not None:
        return reason
    if math.prod(stage.reduced) < MIN_GROUPS * lanes:
        return "the row is too short"
    last = next(it.var for it in reversed(stage.iters) if it.is_reduction and it.extent > 1)
    loads = loads_of(stage.block.body.value.b)
    if not any(last in variables_of(load.indices[-1]) for load in loads):
        return "nothing is read contiguously along the reduced axis"
    spatial = {it.var for it in stage.iters if not it.is_reduction and it.extent > 1}
    reduced = {it.var for it in stage.iters if it.is_reduction}
    # What the whole row shares, such as the number of a gathered row, may lie any way.
    moving = [load for load in loads if any(reduced & variables_of(at) for at in load.indices)]
    if not in_parts and any(spatial & variables_of(innermost_index(load)) for load in moving):
        return "an operand is contiguous along an axis that is kept"
    return None


def _is_zero(expr: Any) -> bool:
    return isinstance(expr, tir.IntImm) and expr.value == 0


def _split(stage: Stage, lanes: int) -> Split:
    """Return the stages that take the place of `stage`, as statements, and the buffers between."""
    row = Row(stage)
    groups, rest = divmod(row.length, lanes)
    partial, before = row.accumulate(groups, lanes)
    stages, buffers = [partial], [before]
    done, width = groups * lanes, lanes
    while width >= 2 * NARROWEST_VECTOR:
        width //= 2
        # Whether the rest of the row has another vector as wide.
        tail = done if rest & width else None
        half, before = row.halve(before, width, tail)
        stages.append(half)
        buffers.append(before)
        done += rest & width
    stages.append(row.finish(before, width, done))
    return stages, buffers


class Row:
    """What one reduction adds up, and the stages that do it in lanes."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.body, self.init = stage.block.body, stage.block.init
        self.combine = type(self.body.value)
        self.spatial = [it for it in stage.iters if not it.is_reduction]
        self.reduced = [it for it in stage.iters if it.is_reduction]
        self.length = math.prod(it.extent for it in self.reduced)
        self.dtype = stage.iters[0].var.dtype

    def accumulate(self, groups: int, lanes: int) -> tuple[Any, Any]:
        """Return the stage that adds up whole groups of lanes, and what it writes."""
        nest, partial = Nest(self.spatial, self.dtype), self._lanes(lanes)
        group = nest.reduce("group", groups)
        lane = nest.spatial("lane", lanes)
        place = [*nest.spatial_vars, lane]
        nest.mapping |= self.at(group * self.const(lanes) + lane)
        return self.partial(nest, partial, place), partial

    def partial(self, nest: Nest, buffer: Any, place: list[Any]) -> Any:
        """Return the stage that adds up at `place` of `buffer` what the row has where `nest` is."""
        term = tir.stmt_functor.substitute(self.body.value.b, nest.mapping)
        total = self.combine(tir.BufferLoad(buffer, place), term)
        first = tir.BufferStore(buffer, self.init.value, place)
        return nest.block(buffer.name, tir.BufferStore(buffer, total, place), first)

    def halve(self, before: Any, width: int, tail: int | None) -> tuple[Any, Any]:
        """Return the stage that puts two halves of `before` together, and what it writes.

        From place `tail` of the row on, its next `width` elements join them.
        """
        nest, half = Nest(self.spatial, self.dtype), self._lanes(width)
        lane = nest.spatial("lane", width)
        place = [*nest.spatial_vars, lane]
        upper = tir.BufferLoad(before, [*nest.spatial_vars, lane + self.const(width)])
        total = self.combine(tir.BufferLoad(before, place), upper)
        if tail is not None:
            total = self.combine(total, self.term(lane + self.const(tail), nest))
        return nest.block(half.name, tir.BufferStore(half, total, place)), half

    def finish(self, before: Any, lanes: int, tail: int) -> Any:
        """Return the stage that adds the last lanes, and what the row has from `tail` on."""
        nest = Nest(self.spatial, self.dtype)
        step = nest.reduce("lane", lanes + self.length - tail)
        value = tir.BufferLoad(before, [*nest.spatial_vars, step])
        if tail < self.length:
            rest = self.term(step + self.const(tail - lanes), nest)
            value = tir.if_then_else(step < self.const(lanes), value, rest)
        return self.total(nest, value)

    def total(self, nest: Nest, value: Any) -> Any:
        """Return the stage that adds up `value` along the accumulated axis of `nest`."""
        place = [tir.stmt_functor.substitute(index, nest.mapping) for index in self.body.indices]
        out = self.stage.writes[0]
        total = self.combine(tir.BufferLoad(out, place), value)
        first = tir.BufferStore(out, self.init.value, place)
        return nest.block(self.stage.name, tir.BufferStore(out, total, place), first)

    def _lanes(self, width: int) -> Any:
        """Return a buffer for `width` partial results of each row."""
        shape = [*(self.const(it.extent) for it in self.spatial), self.const(width)]
        name = f"{self.stage.name}{PARTIAL_SUFFIX}_{width}"
        return tir.decl_buffer(shape, self.stage.writes[0].dtype, name)

    def term(self, position: Any, nest: Nest) -> Any:
        """Return what the row has at a linear position of the reduced axes."""
        return tir.stmt_functor.substitute(self.body.value.b, nest.mapping | self.at(position))

    def at(self, position: Any) -> dict[Any, Any]:
        """Return the reduced axes at a linear position."""
        mapping, stride = {}, self.length
        for it in self.reduced:
            stride //= it.extent
            index = position
            if stride > 1:
                index = tir.floordiv(index, self.const(stride))
            if it is not self.reduced[0]:
                index = tir.floormod(index, self.const(it.extent))
            mapping[it.var] = index
        return mapping

    def const(self, value: int) -> Any:
        """Return a number of the type of the axes."""
        return tir.const(value, self.dtype)


class Nest:
    """Builds one block with its loops: spatial axes copied from a stage, plus new ones."""

    def __init__(self, spatial: list[Any], dtype: str) -> None:
        self.dtype = dtype
        self.iters: list[Any] = []
        self.loops: list[tuple[Any, int]] = []
        self.mapping: dict[Any, Any] = {}
        self.spatial_vars: list[Any] = []
        for it in spatial:
            self.keep(it)

    def keep(self, it: Any) -> None:
        """Add a spatial axis of the stage."""
        var = self._add(it.var.name, it.extent, tir.IterVar.DataPar)
        self.mapping[it.var] = var
        self.spatial_vars.append(var)

    def _add(self, name: str, extent: int, kind: int, at: int | None = None) -> Any:
        var = tir.Var("v_" + name, self.dtype)
        domain = tvm.ir.Range.from_min_extent(
            tir.const(0, self.dtype), tir.const(extent, self.dtype)
        )
        at = len(self.iters) if at is None else at
        self.iters.insert(at, tir.IterVar(domain, var, kind))
        self.loops.insert(at, (tir.Var(name, self.dtype), extent))
        return var

    def spatial(self, name: str, extent: int, at: int | None = None) -> Any:
        """Add a spatial axis, in front of axis `at` or last; return its block variable."""
        return self._add(name, extent, tir.IterVar.DataPar, at)

    def reduce(self, name: str, extent: int) -> Any:
        """Add an accumulated axis; return its block variable."""
        return self._add(name, extent, tir.IterVar.CommReduce)

    def block(self, name: str, body: Any, init: Any | None = None) -> Any:
        """Return the loop nest around a block with this body."""
        loads: list[Any] = []
        tir.stmt_functor.ir_transform(body, loads.append, None, ["tir.BufferLoad"])
        buffers = {load.buffer.data: load.buffer for load in loads}
        buffers[body.buffer.data] = body.buffer
        reads, writes, _ = tir.analysis.get_block_access_region(
            tir.Block(self.iters, [], [], name, body, init), buffers
        )
        block = tir.Block(self.iters, reads, writes, name, body, init)
        realize = tir.BlockRealize([var for var, _ in self.loops], tir.const(True, "bool"), block)
        statement: Any = realize
        for var, extent in reversed(self.loops):
            statement = tir.For(
                var,
                tir.const(0, self.dtype),
                tir.const(extent, self.dtype),
                tir.ForKind.SERIAL,
                statement,
            )
        return statement
