"""The tensor expressions of a convolution by minimal filtering, and how TVM finds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tir, topi
from tvm.relay.op import op as relay_op
from tvm.relay.op.strategy import generic, x86

from tvm_fusionx.expressions.minimal_filtering import FILTERINGS, WINDOW, Filtering

# Axes of NCHWc data.
BLOCKED_AXES = 5

# Names of the stages, by which the schedule knows them.
STAGE_PAD = "winograd_pad"
STAGE_ROWS = "winograd_rows"
STAGE_INPUT = "winograd_input"
STAGE_PRODUCT = "winograd_product"
STAGE_COLUMNS = "winograd_columns"
STAGE_OUTPUT = "winograd_output"
STAGES = (STAGE_PAD, STAGE_ROWS, STAGE_INPUT, STAGE_PRODUCT, STAGE_COLUMNS, STAGE_OUTPUT)

# Where the kernel transforms the weights.
STAGE_WEIGHT_ROWS = "winograd_weight_rows"
STAGE_WEIGHTS = "winograd_weights"
WEIGHT_STAGES = (STAGE_WEIGHT_ROWS, STAGE_WEIGHTS)

# The stages that apply a matrix of the filtering along one axis, and which.
TRANSFORMS = {
    STAGE_ROWS: "input_matrix",
    STAGE_INPUT: "input_matrix",
    STAGE_COLUMNS: "output_matrix",
    STAGE_OUTPUT: "output_matrix",
    STAGE_WEIGHT_ROWS: "weight_matrix",
    STAGE_WEIGHTS: "weight_matrix",
}

# Axes of weights that are not transformed: panels, channels, rows, columns, a panel's channels.
RAW_WEIGHT_AXES = 5

# Annotation of the last stage: tile, rows of zeros above, columns of zeros to the left.
GEOMETRY = "fusionx.winograd"


def _combine(matrix: np.ndarray, row: Any, element: Any, dtype: str) -> Any:
    """Return the sum over k of ``matrix[row, k] * element(k)``; constant once `row` is."""
    total: Any = None
    for k in range(matrix.shape[1]):
        factor: Any = tir.const(float(matrix[0, k]), dtype)
        for position in range(1, matrix.shape[0]):
            here = tir.const(float(matrix[position, k]), dtype)
            factor = tir.Select(row == position, here, factor)
        term = factor * element(k)
        total = term if total is None else total + term
    return total


def winograd_compute(
    data: Any, weights: Any, tile: int, padding: tuple[int, ...], outer: int, dtype: str
) -> Any:
    """Return the NCHWc convolution of `data` by transformed `weights`, as tensor expressions.

    Parameters
    ----------
    data
        Tensor ``[N, I / i, H, W, i]``.
    weights
        Tensor ``[O / panel, points, I, panel]`` from :func:`transform_weights`, or
        ``[O / panel, I, 3, 3, panel]`` from :func:`panel_weights`, which the kernel transforms.
    tile
        Output pixels of a tile along one axis; a key of :data:`FILTERINGS`.
    padding
        Rows and columns of zeros: top, left, bottom, right.
    outer
        Channels of a chunk of the result; divides the panel.
    dtype
        Element type of the result.

    Returns
    -------
    tvm.te.Tensor
        ``[N, O / outer, rows, columns, outer]``.
    """
    filtering = FILTERINGS[tile]
    span, points = filtering.span, filtering.points
    batch, chunks, height, width, inner = (int(extent) for extent in data.shape)
    if len(weights.shape) == RAW_WEIGHT_AXES:
        weights = _transformed(weights, filtering)
    panels, _, channels, panel = (int(extent) for extent in weights.shape)
    top, left, bottom, right = padding
    rows, columns = height + top + bottom - WINDOW + 1, width + left + right - WINDOW + 1
    tile_rows, tile_columns = -(-rows // tile), -(-columns // tile)
    image = tile_rows * tile_columns
    zero = tir.const(0, data.dtype)
    padded = te.compute(
        (batch, chunks, tile_rows * tile + WINDOW - 1, tile_columns * tile + WINDOW - 1, inner),
        lambda n, c, h, w, v: tir.if_then_else(
            tir.all(h >= top, h < height + top, w >= left, w < width + left),
            data[n, c, h - top, w - left, v],
            zero,
        ),
        name=STAGE_PAD,
    )
    by_rows = te.compute(
        (batch, chunks, tile_rows, span, tile_columns * tile + WINDOW - 1, inner),
        lambda n, c, t, a, w, v: _combine(
            filtering.input_matrix, a, lambda k: padded[n, c, t * tile + k, w, v], data.dtype
        ),
        name=STAGE_ROWS,
    )
    transformed = te.compute(
        (points, chunks, batch * image, inner),
        lambda p, c, t, v: _combine(
            filtering.input_matrix,
            tir.indexmod(p, span),
            lambda k: by_rows[
                tir.indexdiv(t, image),
                c,
                tir.indexmod(tir.indexdiv(t, tile_columns), tile_rows),
                tir.indexdiv(p, span),
                tir.indexmod(t, tile_columns) * tile + k,
                v,
            ],
            data.dtype,
        ),
        name=STAGE_INPUT,
    )
    channel = te.reduce_axis((0, channels), name="channel")
    product = te.compute(
        (panels, points, batch * image, panel),
        lambda o, p, t, v: te.sum(
            transformed[p, tir.indexdiv(channel, inner), t, tir.indexmod(channel, inner)].astype(
                dtype
            )
            * weights[o, p, channel, v].astype(dtype),
            axis=[channel],
        ),
        name=STAGE_PRODUCT,
    )
    by_columns = te.compute(
        (panels, batch * image, tile, span, panel),
        lambda o, t, y, b, v: _combine(
            filtering.output_matrix, y, lambda k: product[o, k * span + b, t, v], dtype
        ),
        name=STAGE_COLUMNS,
    )
    return te.compute(
        (batch, panels * panel // outer, rows, columns, outer),
        lambda n, o, h, w, v: _combine(
            filtering.output_matrix,
            tir.indexmod(w, tile),
            lambda k: by_columns[
                tir.indexdiv(o * outer + v, panel),
                (n * tile_rows + tir.indexdiv(h, tile)) * tile_columns + tir.indexdiv(w, tile),
                tir.indexmod(h, tile),
                k,
                tir.indexmod(o * outer + v, panel),
            ],
            dtype,
        ),
        name=STAGE_OUTPUT,
        attrs={GEOMETRY: [tile, top, left]},
    )


def _transformed(weights: Any, filtering: Filtering) -> Any:
    """Return weights ``[O / panel, I, 3, 3, panel]`` as ``[O / panel, points, I, panel]``."""
    panels, channels, _, _, panel = (int(extent) for extent in weights.shape)
    span = filtering.span
    rows = te.compute(
        (panels, channels, span, WINDOW, panel),
        lambda o, c, a, w, v: _combine(
            filtering.weight_matrix, a, lambda k: weights[o, c, k, w, v], weights.dtype
        ),
        name=STAGE_WEIGHT_ROWS,
    )
    return te.compute(
        (panels, filtering.points, channels, panel),
        lambda o, p, c, v: _combine(
            filtering.weight_matrix,
            tir.indexmod(p, span),
            lambda k: rows[o, c, tir.indexdiv(p, span), k, v],
            weights.dtype,
        ),
        name=STAGE_WEIGHTS,
    )


def register_winograd() -> None:
    """Give TVM's Winograd operator a strategy for blocked data on CPUs; idempotent."""
    strategy = generic.conv2d_winograd_without_weight_transform_strategy
    strategy.register("cpu", _strategy)


def _strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
    if len(inputs[0].shape) != BLOCKED_AXES:
        return x86.conv2d_winograd_without_weight_transform_strategy_cpu(
            attrs, inputs, out_type, target
        )
    chosen = relay_op.OpStrategy()
    chosen.add_implementation(_compute, _schedule, name="tvm_fusionx.winograd")
    return chosen


def _compute(attrs: Any, inputs: Any, out_type: Any) -> list[Any]:
    padding = topi.utils.get_const_tuple(attrs.padding)
    outer = int(out_type.shape[-1])
    return [
        winograd_compute(inputs[0], inputs[1], int(attrs.tile_size), padding, outer, out_type.dtype)
    ]


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])
