"""Whether a vector takes neighbouring rows, each of them a sum of its own."""

from __future__ import annotations

import math
from typing import Any

from tvm import arith, tir

from tvm_fusionx.schedules.rows.lane_reductions import LONG_ROW_GROUPS
from tvm_fusionx.tir.block import Iter, Stage, loads_of
from tvm_fusionx.tir.index_maps import variables_of


def takes_long_rows(stage: Stage) -> bool:
    """Tell whether a reduction takes long rows as they lie in memory, so that each fills vectors.

    Neighbours taken together would be few tasks, whose second pass finds nothing in the cache.
    """
    if not stage.is_reduction or math.prod(stage.reduced) < LONG_ROW_GROUPS:
        return False
    summed = _summed(stage)
    moving = [places for places in map(_places, _operands(stage)) if set().union(*places) & summed]
    return bool(moving) and all(places[-1] & summed for places in moving)


def is_contiguous(stage: Stage, it: Iter) -> bool:
    """Tell whether a leader that accumulates is contiguous along `it`, not along what it sums."""
    if not stage.is_reduction:
        return True
    summed, loads = _summed(stage), _operands(stage)
    if not any(places[-1] & summed for places in map(_places, loads)):
        return True
    # An operand that is the same for all of them is loaded once.
    moving = [load for load in loads if any(it.var in place for place in _places(load))]
    return bool(moving) and all(_are_neighbours(load, it, summed) for load in moving)


def _are_neighbours(load: Any, it: Iter, summed: set[Any]) -> bool:
    """Tell whether what is loaded at successive places of `it` lies side by side."""
    *outer, last = _places(load)
    if it.var not in last or any(it.var in place for place in outer):
        return False
    if not last & summed:
        return True
    # Lanes of one row, `group * lanes + lane`: no windows that overlap.
    steps = list(last & summed)
    found = arith.detect_linear_equation(load.indices[-1], [it.var, *steps])
    factors = [int(each) for each in found[:-1] if isinstance(each, tir.IntImm)]
    return factors[:1] == [1] and factors[1:] == [it.extent] * len(steps)


def _summed(stage: Stage) -> set[Any]:
    return {it.var for it in stage.iters if it.is_reduction and it.extent > 1}


def _operands(stage: Stage) -> list[Any]:
    """Return what a stage loads, but what it writes itself."""
    own = {buffer.data for buffer in stage.writes}
    loads = loads_of(stage.block.body)
    return [load for load in loads if load.indices and load.buffer.data not in own]


def _places(load: Any) -> list[set[Any]]:
    return [variables_of(index) for index in load.indices]
