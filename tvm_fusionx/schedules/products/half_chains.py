"""Sums of a dot product in halves, a chain of terms at a time, behind sums of float32.

The sum over terms is taken apart into chains (``rfactor``), each computed in registers for a tile
and then added to the tile's sums of float32, which lie in memory meanwhile. When all is scheduled,
what holds the chains becomes halves, and so do copies of what they multiply:

    for term in 384:                          for chain in 12:
        s[m, n] += a[m, term] * w[term, n]        c[m, n] = 0
                                      ->          for term in 32 of them:
                                                      c[m, n] += half(a[m, term]) * half(w[term, n])
                                                  s[m, n] += float32(c[m, n])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.half_sums import HALF, SINGLE
from tvm_fusionx.schedules.parts.nest import Late, own_loops
from tvm_fusionx.schedules.products.plan import DotPlan
from tvm_fusionx.tir.block import BlockInfo, collect_blocks, loads_of
from tvm_fusionx.tir.half_terms import half_terms, longest_chain
from tvm_fusionx.tir.stored_types import with_block_buffers

# Returns batch loops, row loop and column loop of a block in the product's axes.
Roles = Callable[[Any, Any, DotPlan], tuple[list[Any], Any, Any]]

# What `rfactor` and `decompose_reduction` put behind the name of a block that they take apart.
_CHAINS = "_rf_update"


def with_chains(plan: DotPlan, info: BlockInfo) -> DotPlan:
    """Return the plan of a product with chains of as many terms as its block allows.

    Sums of chains are not cut into parts.
    """
    most = half_terms(info.func, plan.axes.left.buffer, plan.axes.right.buffer)
    chain = longest_chain(plan.k, most)
    return replace(plan, chain=chain, parts=1, part_choices=(1,)) if chain else plan


def sum_in_chains(
    sch: Any, sums: Any, tile_loop: Any, plan: DotPlan, roles: Roles, late: Late
) -> None:
    """Compute the sums of a tile at `tile_loop`, chain after chain.

    Parameters
    ----------
    sums
        The block that sums up all terms.
    plan
        Of the product, with the terms of a chain.
    """
    _, (terms,) = own_loops(sch, sums)
    chain, _ = sch.split(terms, [plan.k // plan.chain, None])
    chains = sch.rfactor(chain, 0)
    sch.set_scope(chains, 0, "local")
    sch.compute_at(sums, tile_loop, preserve_unit_loops=True)
    batch, m, n = roles(sch, sums, plan)
    _, (chain,) = own_loops(sch, sums)
    _written_out(sch, [*batch, chain], m, n, plan)
    late.append(lambda: initialise(sch, sums, chain))

    sch.compute_at(chains, chain, preserve_unit_loops=True)
    # The chains are an axis before the others.
    axes = plan.axes
    shifted = [tuple(axis + 1 for axis in each) for each in (axes.m, axes.n)]
    own = replace(plan, axes=replace(axes, m=shifted[0], n=shifted[1]))
    batch, m, n = roles(sch, chains, own)
    _, (term,) = own_loops(sch, chains)
    _written_out(sch, [*batch, term], m, n, plan)
    turn, steps = term, math.gcd(plan.chain, plan.steps)
    if steps > 1:
        turn, step = sch.split(term, [None, steps])
        sch.unroll(step)
    late.append(lambda: initialise(sch, chains, turn))


def _written_out(sch: Any, around: list[Any], m: Any, n: Any, plan: DotPlan) -> None:
    """Put rows and vectors of a tile inside the loops `around`, written out."""
    vector, lane = sch.split(n, [plan.vectors, plan.lanes])
    sch.reorder(*around, m, vector, lane)
    sch.vectorize(lane)
    sch.unroll(m)
    sch.unroll(vector)


def initialise(sch: Any, accumulate: Any, loop: Any) -> None:
    """Give the sums of a tile their first values before `loop`, vector by vector."""
    init = sch.decompose_reduction(accumulate, loop)
    row, vector, lane = sch.get_loops(init)[-3:]
    sch.vectorize(lane)
    sch.unroll(vector)
    sch.unroll(row)


def chains_as_halves(func: Any, reduce: str) -> Any:
    """Return a scheduled product whose chains, and copies of what they multiply, are of halves.

    Parameters
    ----------
    func
        Both operands of the product lie in memory as halves, and are float32 here.
    reduce
        Name of the block that adds up the chains.
    """
    blocks = {each.name_hint: each for each in collect_blocks(func)}
    given = [func.buffer_map[param].data for param in func.params]
    halves = {}
    for load in loads_of(blocks[f"{reduce}{_CHAINS}"].body.value):
        if not any(load.buffer.data.same_as(data) for data in given):
            halves[load.buffer] = _of_halves(load.buffer)
    for part in (part for block in blocks.values() for part in block.match_buffers):
        if part.source.buffer in halves:
            halves[part.buffer] = _of_halves(part.buffer)

    def changed(old: Any) -> Any:
        return halves.get(old, old)

    def rewrite(node: Any) -> Any:
        if isinstance(node, tir.Block):
            return with_block_buffers(node, changed)
        if node.buffer not in halves:
            return None
        buffer = halves[node.buffer]
        if isinstance(node, tir.BufferLoad):
            return tir.Cast(node.dtype, tir.BufferLoad(buffer, node.indices))
        return tir.BufferStore(buffer, _as_halves(node.value), node.indices)

    kinds = ["tir.BufferLoad", "tir.BufferStore", "tir.Block"]
    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, rewrite, kinds))


def _of_halves(old: Any) -> Any:
    """Return a buffer like another, of halves."""
    return tir.decl_buffer(
        old.shape,
        HALF,
        old.name,
        strides=list(old.strides) or None,
        elem_offset=old.elem_offset,
        scope=old.scope(),
        offset_factor=old.offset_factor,
    )


def _as_halves(value: Any) -> Any:
    """Return what is computed of halves, given as float32, computed in halves."""
    if isinstance(value, tir.Add | tir.Mul):
        return type(value)(_as_halves(value.a), _as_halves(value.b))
    if isinstance(value, tir.Shuffle):
        return tir.Shuffle([_as_halves(each) for each in value.vectors], value.indices)
    if isinstance(value, tir.Cast) and value.value.dtype.startswith(HALF):
        return value.value
    return tir.Cast(f"{HALF}{value.dtype.removeprefix(SINGLE)}", value)
