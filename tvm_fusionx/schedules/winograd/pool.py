"""A pool behind a convolution by minimal filtering, whose windows lie within the tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import BlockInfo, Stage

# Axes of a blocked image [N, C / c, H, W, c] over which windows move.
ROWS, COLUMNS = 2, 3
RANK = 5

_COMBINATIONS: dict[type, Callable[[Any, Any], Any]] = {
    tir.Max: tir.max,
    tir.Add: lambda sum_, value: sum_ + value,
}


@dataclass(frozen=True)
class Pool:
    """A reduction over windows that neither overlap nor leave the image."""

    stage: str
    """Its stage."""

    source: Any
    """The buffer it reads, ``[N, C / c, H, W, c]``."""

    window: tuple[int, int]
    """Rows and columns of a window, and its strides."""

    combine: Callable[[Any, Any], Any]
    """Returns the reduction of two values."""


def find_pool(info: BlockInfo, product: str, tile: int) -> Pool | str | None:
    """Return the pool behind stage `product`, None where nothing else is reduced, or why not.

    Parameters
    ----------
    info
        The block.
    product
        Name of the stage that sums the convolution's products.
    tile
        Rows and columns of the output that are computed together.
    """
    others = [stage for stage in info.reductions if stage.name != product]
    if not others:
        return None
    if len(others) > 1:
        return "it has several reductions besides the products"
    (stage,) = others
    if stage.name not in info.downstream(product):
        return "it has a reduction that does not follow the products"
    pool = _as_pool(stage)
    if pool is None:
        return "what it reduces besides the products are no windows side by side"
    if any(tile % size for size in pool.window):
        return f"windows of {pool.window} cross tiles of {tile}"
    return pool


def _as_pool(stage: Stage) -> Pool | None:
    body = stage.block.body
    spatial = [it.var for it in stage.iters if not it.is_reduction]
    moving = [it for it in stage.iters if it.is_reduction]
    if len(spatial) != RANK or len(moving) != len((ROWS, COLUMNS)) or len(stage.reads) != 1:
        return None
    if not isinstance(body, tir.BufferStore) or type(body.value) not in _COMBINATIONS:
        return None
    sides = [body.value.a, body.value.b]
    own = [isinstance(side, tir.BufferLoad) and side.buffer.same_as(body.buffer) for side in sides]
    if sorted(own) != [False, True]:
        return None
    load = sides[own.index(False)]
    if not isinstance(load, tir.BufferLoad):
        return None
    window = (moving[0].extent, moving[1].extent)
    steps = {ROWS: moving[0], COLUMNS: moving[1]}
    for axis, (index, var) in enumerate(zip(load.indices, spatial, strict=True)):
        variables = [var, steps[axis].var] if axis in steps else [var]
        wanted = [steps[axis].extent, 1, 0] if axis in steps else [1, 0]
        found = tvm.arith.detect_linear_equation(index, variables)
        if [getattr(each, "value", None) for each in found] != wanted:
            return None
    return Pool(stage.name, load.buffer, window, _COMBINATIONS[type(body.value)])
