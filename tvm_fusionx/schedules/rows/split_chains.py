"""Split a reduction of few vectors into several chains that hide each other's latency.

``s[l] = sum_k x[k, l]`` is one chain of additions for each vector of lanes. Where a core has too
few vectors to add up side by side, as for a mean of one chunk of channels or of eleven, it becomes
``p[c, l] = sum_k x[k*C + c, l]`` and ``s[l] = sum_c p[c, l]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.nest import NARROWEST_VECTOR
from tvm_fusionx.schedules.rows.lane_reductions import (
    Nest,
    Row,
    Split,
    why_not_in_parts,
    with_split_stages,
)
from tvm_fusionx.schedules.rows.side_by_side import rows_side_by_side
from tvm_fusionx.tir.block import Iter, Stage, loads_of
from tvm_fusionx.tir.index_maps import variables_of
from tvm_fusionx.tir.numbers import divisors

# With more vectors side by side, parts of a sum took longer than whole ones (Zen 4): 5 chunks of 8
# channels of 3 x 96 pixels 0.85 us and 0.48; 11 chunks, one after another before, 1.5 and 3.2.
MOST_BESIDE = 2

# Terms of a chain below which putting the chains together costs what they bring.
LEAST_TERMS_OF_A_CHAIN = 6

CHAINS_SUFFIX = "_chains"


def split_chains(func: Any, cpu: Cpu, most: int) -> Any:
    """Return `func` with sums of too few vectors in several chains, at most `most` of each."""

    def split(stage: Stage) -> Split | None:
        number = chains_of(stage, cpu, most)
        return _split(stage, number) if number > 1 else None

    return with_split_stages(func, split)


def chains_of(stage: Stage, cpu: Cpu, most: int) -> int:
    """Return the number of chains for each vector of a reduction, a divisor of its last extent."""
    if why_not_in_parts(stage) is not None or not _is_along_lanes(stage):
        return 1
    lanes = next(extent for extent in reversed(stage.spatial) if extent > 1)
    vectors = math.prod(stage.spatial) // lanes * math.ceil(lanes / cpu.lanes)
    beside = rows_side_by_side(vectors, cpu.cores, most, cpu)
    if beside > MOST_BESIDE:
        return 1
    length = math.prod(stage.reduced)
    last = next((extent for extent in reversed(stage.reduced) if extent > 1), 1)
    choices = [
        number
        for number in divisors(last)
        if number <= most and length // number >= LEAST_TERMS_OF_A_CHAIN
    ]
    # As many chains as this keep additions as busy as loads.
    wanted = round(cpu.addition_latency * cpu.loads_a_cycle)
    enough = [number for number in choices if number * beside >= wanted]
    return min(enough, default=max(choices, default=1))


def _is_along_lanes(stage: Stage) -> bool:
    """Tell whether what a reduction reads lies as the last axis that it keeps."""
    kept = [it for it in stage.iters if not it.is_reduction and it.extent > 1]
    if not kept or kept[-1].extent < NARROWEST_VECTOR:
        return False
    reduced = {it.var for it in stage.iters if it.is_reduction and it.extent > 1}
    own = stage.writes[0].data
    moving = [
        [variables_of(index) for index in load.indices]
        for load in loads_of(stage.block.body)
        if not load.buffer.data.same_as(own)
        and any(kept[-1].var in variables_of(index) for index in load.indices)
    ]
    return bool(moving) and all(
        kept[-1].var in places[-1] and not places[-1] & reduced for places in moving
    )


def _split(stage: Stage, number: int) -> Split:
    row = Row(stage)
    last = _last_wide(row.reduced)
    nest = Nest(row.spatial, row.dtype)
    # Just before the lanes, so that these stay side by side.
    at = row.spatial.index(_last_wide(row.spatial))
    chain = nest.spatial("chain", number, at)
    for it in row.reduced:
        step = nest.reduce(it.var.name, it.extent // number if it is last else it.extent)
        nest.mapping[it.var] = step * row.const(number) + chain if it is last else step
    shape = [row.const(it.extent) for it in row.spatial]
    shape.insert(at, row.const(number))
    partial = tir.decl_buffer(shape, stage.writes[0].dtype, stage.name + CHAINS_SUFFIX)
    summed = row.partial(nest, partial, [*nest.spatial_vars[:at], chain, *nest.spatial_vars[at:]])

    whole = Nest(row.spatial, row.dtype)
    each = whole.reduce("chain", number)
    place = [*whole.spatial_vars[:at], each, *whole.spatial_vars[at:]]
    return [summed, row.total(whole, tir.BufferLoad(partial, place))], [partial]


def _last_wide(iters: Sequence[Iter]) -> Iter:
    return next(it for it in reversed(iters) if it.extent > 1)
