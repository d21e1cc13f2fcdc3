"""Which results one work-item and one work-group compute, for a block around one reduction.

A work-item computes a tile of `tile_y` x `tile_x` results in registers: each value of one operand
that it loads serves `tile_x` results, each of the other `tile_y`. Axis x is the one along which the
result is contiguous, so that neighbouring items write neighbouring vectors; axis y is one along
which only the operand varies that does not vary along x.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import DEFAULT_ITEMS, shares_of
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues
from tvm_fusionx.tir.block import Stage
from tvm_fusionx.tir.index_maps import variables_of

TILE_X, TILE_Y, ITEMS_X, ITEMS_Y, STAGED = "tile_x", "tile_y", "items_x", "items_y", "staged"
TEXTURE = "texture"

TILES = (1, 2, 4, 8)
ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# Tiles tried from the largest; the first that leaves the device busy is the default. Squarer tiles
# load less for each result: 4 x 4 loads 8 values for 16.
DEFAULT_TILES = ((4, 4), (2, 4), (4, 2), (1, 4), (2, 2), (4, 1), (1, 2), (2, 1), (1, 1))


@dataclass(frozen=True)
class Axes:
    """The roles of the spatial axes of a reduction, as positions among them."""

    x: int
    y: int | None
    before: tuple[int, ...]
    """Axes outside of y, run through by the items of y."""
    between: tuple[int, ...]
    """Axes between y and x, run through by the items of x."""
    extents: tuple[int, ...]

    def extent_of(self, axis: int | None) -> int:
        """Return the extent of an axis; 1 for none."""
        return 1 if axis is None else self.extents[axis]


def axes_of(stage: Stage) -> Axes:
    """Return the roles of a reduction's spatial axes."""
    spatial = [it for it in stage.iters if not it.is_reduction]
    wide = [position for position, it in enumerate(spatial) if it.extent > 1]
    x = wide[-1] if wide else len(spatial) - 1
    y = _other_axis(stage, spatial, wide[:-1], x)
    others = [position for position in range(len(spatial)) if position not in (x, y)]
    before = tuple(each for each in others if y is not None and each < y)
    between = tuple(each for each in others if each not in before)
    return Axes(x, y, before, between, tuple(it.extent for it in spatial))


def _other_axis(stage: Stage, spatial: list[Any], wide: list[int], x: int) -> int | None:
    if not stage.is_dot:
        return None
    left, right = (_variables(side) for side in operands_of(stage))
    var = spatial[x].var
    # Of an axis x that both operands vary along (channels of a depthwise convolution), any other.
    sought = left ^ right if var in left & right else (right if var in left else left)
    for position in reversed(wide):
        other = spatial[position].var
        if other in sought and other not in left & right:
            return position
    return None


def operands_of(stage: Stage) -> tuple[Any, Any]:
    """Return the two factors that a dot product's stage multiplies."""
    value = stage.block.body.value
    own = stage.writes[0].data
    is_own = isinstance(value.a, tir.BufferLoad) and value.a.buffer.data.same_as(own)
    product = value.b if is_own else value.a
    while isinstance(product, tir.Cast):
        product = product.value
    return product.a, product.b


def _variables(expr: Any) -> set[Any]:
    return variables_of(expr)


def tile_knobs(stage: Stage, gpu: Gpu) -> Knobs:
    """Return the knobs of the tile of a reduction, with defaults that keep the device busy."""
    axes = axes_of(stage)
    y, x = _default_tile(stage, axes, gpu)
    width, height = axes.extents[axes.x], axes.extent_of(axes.y)
    columns = [*(axes.extents[axis] for axis in axes.between), -(-width // x)]
    rows = [*(axes.extents[axis] for axis in axes.before), -(-height // y)]
    items_x = math.prod(shares_of(columns, min(DEFAULT_ITEMS, gpu.items)))
    items_y = math.prod(shares_of(rows, min(DEFAULT_ITEMS, gpu.items) // items_x))
    return {
        TILE_X: Knob(x, _choices(width)),
        TILE_Y: Knob(y, _choices(height)),
        ITEMS_X: Knob(items_x, _items(items_x, gpu)),
        ITEMS_Y: Knob(items_y, _items(items_y, gpu)),
        STAGED: Knob(0, (0, 1) if can_stage(stage, axes) else (0,)),
    }


def _default_tile(stage: Stage, axes: Axes, gpu: Gpu) -> tuple[int, int]:
    width, height = axes.extents[axes.x], axes.extent_of(axes.y)
    if not stage.is_dot:
        # Chunks of channels, which a vector holds.
        return 1, gpu.lanes if width == gpu.lanes else 1
    return default_tile(height, width, math.prod(axes.extents), gpu)


def default_tile(height: int, width: int, results: int, gpu: Gpu) -> tuple[int, int]:
    """Return the largest tile of a product that leaves the device busy.

    Parameters
    ----------
    height, width
        Extents of axes y and x.
    results
        Of the whole product.
    """
    for y, x in DEFAULT_TILES:
        if y > height or x > width or y * x > gpu.accumulators:
            continue
        if results // (y * x) >= gpu.busy_items:
            return y, x
    return 1, 1


def can_stage(stage: Stage, axes: Axes) -> bool:
    """Tell whether both operands can pass through local memory: a matrix product's."""
    reduced = [it for it in stage.iters if it.is_reduction and it.extent > 1]
    if not stage.is_dot or axes.y is None or len(reduced) != 1 or axes.between:
        return False
    return all(isinstance(side, tir.BufferLoad) for side in operands_of(stage))


def within_limits(values: KnobValues, gpu: Gpu) -> dict[str, int]:
    """Return knob values with as many items as a group may have, and as large a tile as fits."""
    chosen = dict(values)
    while chosen[ITEMS_X] * chosen[ITEMS_Y] > gpu.items:
        larger = ITEMS_X if chosen[ITEMS_X] >= chosen[ITEMS_Y] else ITEMS_Y
        chosen[larger] //= 2
    while chosen[TILE_X] * chosen[TILE_Y] > gpu.accumulators:
        larger = TILE_X if chosen[TILE_X] >= chosen[TILE_Y] else TILE_Y
        chosen[larger] //= 2
    return chosen


def _items(default: int, gpu: Gpu) -> tuple[int, ...]:
    return tuple(sorted({default, *(each for each in ITEMS if each <= gpu.items)}))


def _choices(extent: int) -> tuple[int, ...]:
    return tuple(each for each in TILES if each <= extent)
