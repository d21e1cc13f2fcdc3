"""Split reductions along the contiguous axis into one partial result for each vector lane.

``s = sum_k x[k]`` is a chain of additions, each waiting for the one before. It becomes
``p[l] = sum_k x[k*L + l]``, a vector accumulation, and ``s = sum_l p[l]`` plus the rest of the row.
TVM's own ``rfactor`` does this only when the extent is a multiple of L.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.access import variables_of
from tvm_fusionx.schedules.analysis import Stage, collect_blocks, describe_stage, loads_of
from tvm_fusionx.schedules.root_block import nests_of, with_root

# A row must hold this many lane groups for the final combination of the lanes to pay.
MIN_GROUPS = 2

# From so many lane groups on a row keeps several vectors of partial results, where it may: they
# hide the latency of an addition and add up more exactly, for a longer combination at the end.
LONG_ROW_GROUPS = 32

PARTIAL_SUFFIX = "_lanes"

_COMBINERS = (tir.Add, tir.Mul, tir.Max, tir.Min)


def split_lane_reductions(
    func: Any, lanes: int, keep: frozenset[str] = frozenset(), vectors: int = 1
) -> Any:
    """Return `func` with long contiguous reductions split into `lanes`, but the stages `keep`.

    Rows of at least `LONG_ROW_GROUPS` are split into `vectors` times as many.
    """
    chosen = {}
    for block in collect_blocks(func):
        stage = describe_stage(block)
        if stage.name not in keep and why_not_split(stage, lanes) is None:
            chosen[block.name_hint] = stage
    if not chosen:
        return func
    root = func.body.block
    buffers = list(root.alloc_buffers)
    rewritten = []
    for statement in nests_of(func):
        name = _block_name(statement)
        if name in chosen:
            is_long = math.prod(chosen[name].reduced) >= LONG_ROW_GROUPS * lanes
            partial, final, buffer = _split(chosen[name], lanes * (vectors if is_long else 1))
            buffers.append(buffer)
            rewritten += [partial, final]
        else:
            rewritten.append(statement)
    return with_root(func, tir.SeqStmt(rewritten), buffers)


def _block_name(statement: Any) -> str:
    while isinstance(statement, tir.For):
        statement = statement.body
    return str(statement.block.name_hint) if isinstance(statement, tir.BlockRealize) else ""


def why_not_split(stage: Stage, lanes: int) -> str | None:
    """Return why `stage` keeps its reduction as it is, or None when splitting it pays."""
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
    if math.prod(stage.reduced) < MIN_GROUPS * lanes:
        return "the row is too short"
    last = next(it.var for it in reversed(stage.iters) if it.is_reduction and it.extent > 1)
    loads = loads_of(value.b)
    if not any(last in variables_of(load.indices[-1]) for load in loads):
        return "nothing is read contiguously along the reduced axis"
    spatial = {it.var for it in stage.iters if not it.is_reduction and it.extent > 1}
    reduced = {it.var for it in stage.iters if it.is_reduction}
    # What the whole row shares, such as the number of a gathered row, may lie any way.
    moving = [load for load in loads if any(reduced & variables_of(at) for at in load.indices)]
    if any(spatial & variables_of(load.indices[-1]) for load in moving):
        return "an operand is contiguous along an axis that is kept"
    return None


def _is_zero(expr: Any) -> bool:
    return isinstance(expr, tir.IntImm) and expr.value == 0


def _split(stage: Stage, lanes: int) -> tuple[Any, Any, Any]:
    """Return the partial stage, the final stage and the buffer between them, as statements."""
    body, init = stage.block.body, stage.block.init
    out = stage.writes[0]
    combine = type(body.value)
    term = body.value.b
    spatial = [it for it in stage.iters if not it.is_reduction]
    reduced = [it for it in stage.iters if it.is_reduction]
    total = math.prod(it.extent for it in reduced)
    groups, rest = divmod(total, lanes)
    shape = [tir.const(it.extent, stage.iters[0].var.dtype) for it in spatial]
    dtype = stage.iters[0].var.dtype
    partial = tir.decl_buffer(
        [*shape, tir.const(lanes, dtype)], out.dtype, stage.name + PARTIAL_SUFFIX
    )

    def at(position: Any, variables: dict[Any, Any]) -> Any:
        """Return the term at a linear position of the reduced axes."""
        mapping = dict(variables)
        stride = total
        for it in reduced:
            stride //= it.extent
            index = position
            if stride > 1:
                index = tir.floordiv(index, tir.const(stride, dtype))
            if it is not reduced[0]:
                index = tir.floormod(index, tir.const(it.extent, dtype))
            mapping[it.var] = index
        return tir.stmt_functor.substitute(term, mapping)

    first = _Nest(spatial, dtype)
    group = first.reduce("group", groups)
    lane = first.spatial("lane", lanes)
    place = [*first.spatial_vars, lane]
    accumulate = combine(
        tir.BufferLoad(partial, place), at(group * tir.const(lanes, dtype) + lane, first.mapping)
    )
    partial_stage = first.block(
        stage.name + PARTIAL_SUFFIX,
        tir.BufferStore(partial, accumulate, place),
        tir.BufferStore(partial, init.value, place),
    )
    second = _Nest(spatial, dtype)
    step = second.reduce("lane", lanes + rest)
    value = tir.BufferLoad(partial, [*second.spatial_vars, step])
    if rest:
        tail = at(step + tir.const(groups * lanes - lanes, dtype), second.mapping)
        value = tir.if_then_else(step < tir.const(lanes, dtype), value, tail)
    place = [tir.stmt_functor.substitute(index, second.mapping) for index in body.indices]
    final_stage = second.block(
        stage.name,
        tir.BufferStore(out, combine(tir.BufferLoad(out, place), value), place),
        tir.BufferStore(out, init.value, place),
    )
    return partial_stage, final_stage, partial


class _Nest:
    """Builds one block with its loops: spatial axes copied from a stage, plus new ones."""

    def __init__(self, spatial: list[Any], dtype: str) -> None:
        self.dtype = dtype
        self.iters: list[Any] = []
        self.loops: list[tuple[Any, int]] = []
        self.mapping: dict[Any, Any] = {}
        self.spatial_vars = []
        for it in spatial:
            var = self._add(it.var.name, it.extent, tir.IterVar.DataPar)
            self.mapping[it.var] = var
            self.spatial_vars.append(var)

    def _add(self, name: str, extent: int, kind: int) -> Any:
        var = tir.Var("v_" + name, self.dtype)
        domain = tvm.ir.Range.from_min_extent(
            tir.const(0, self.dtype), tir.const(extent, self.dtype)
        )
        self.iters.append(tir.IterVar(domain, var, kind))
        self.loops.append((tir.Var(name, self.dtype), extent))
        return var

    def spatial(self, name: str, extent: int) -> Any:
        """Add a spatial axis; return its block variable."""
        return self._add(name, extent, tir.IterVar.DataPar)

    def reduce(self, name: str, extent: int) -> Any:
        """Add an accumulated axis; return its block variable."""
        return self._add(name, extent, tir.IterVar.CommReduce)

    def block(self, name: str, body: Any, init: Any) -> Any:
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
