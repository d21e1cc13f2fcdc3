"""Winograd's minimal filtering F(4x4, 3x3): matrices, weights, the operator's tensor expressions.

A 3x3 convolution of stride 1 makes each 4x4 tile of output from a 6x6 tile of input with 36 instead
of 144 multiplications a channel pair (Lavin and Gray, 2016, section 4.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import te, tir, topi
from tvm.relay.op import op as relay_op
from tvm.relay.op.strategy import generic

WINOGRAD = "nn.contrib_conv2d_winograd_without_weight_transform"

# Output and input pixels of a tile along one axis, and the window's.
TILE = 4
WINDOW = 3
SPAN = TILE + WINDOW - 1

# Names of the stages, by which the schedule knows them.
STAGE_PAD = "winograd_pad"
STAGE_ROWS = "winograd_rows"
STAGE_INPUT = "winograd_input"
STAGE_PRODUCT = "winograd_product"
STAGE_COLUMNS = "winograd_columns"
STAGE_OUTPUT = "winograd_output"

# Lavin and Gray, section 4.3: the transforms of input, weights and output.
INPUT_MATRIX = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ],
    dtype=np.float64,
)
WEIGHT_MATRIX = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
    dtype=np.float64,
)
OUTPUT_MATRIX = np.array(
    [
        [1, 1, 1, 1, 1, 0],
        [0, 1, -1, 2, -2, 0],
        [0, 1, 1, 4, 4, 0],
        [0, 1, -1, 8, -8, 1],
    ],
    dtype=np.float64,
)


def transform_weights(array: np.ndarray, block: int) -> np.ndarray:
    """Return weights ``[O, I, 3, 3]`` transformed and packed as ``[36, O / block, I, block]``."""
    outputs, inputs, _, _ = array.shape
    wide = np.einsum(
        "ak,oikl,bl->aboi", WEIGHT_MATRIX, array.astype(np.float64), WEIGHT_MATRIX, optimize=True
    )
    cut = wide.reshape(SPAN * SPAN, outputs // block, block, inputs)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 2)).astype(array.dtype)


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


def winograd_compute(data: Any, weights: Any, padding: tuple[int, ...], dtype: str) -> Any:
    """Return the NCHWc convolution of `data` by transformed `weights`, as tensor expressions.

    Parameters
    ----------
    data
        Tensor ``[N, I / i, H, W, i]``.
    weights
        Tensor ``[36, O / o, I, o]`` from :func:`transform_weights`.
    padding
        Rows and columns of zeros: top, left, bottom, right.
    dtype
        Element type of the result.
    """
    batch, chunks, height, width, inner = (int(extent) for extent in data.shape)
    _, out_chunks, channels, outer = (int(extent) for extent in weights.shape)
    top, left, bottom, right = padding
    rows, columns = height + top + bottom - WINDOW + 1, width + left + right - WINDOW + 1
    tile_rows, tile_columns = -(-rows // TILE), -(-columns // TILE)
    tiles = batch * tile_rows * tile_columns
    zero = tir.const(0, data.dtype)
    padded = te.compute(
        (batch, chunks, tile_rows * TILE + WINDOW - 1, tile_columns * TILE + WINDOW - 1, inner),
        lambda n, c, h, w, v: tir.if_then_else(
            tir.all(h >= top, h < height + top, w >= left, w < width + left),
            data[n, c, h - top, w - left, v],
            zero,
        ),
        name=STAGE_PAD,
    )
    by_rows = te.compute(
        (batch, chunks, tile_rows, SPAN, tile_columns * TILE + WINDOW - 1, inner),
        lambda n, c, t, a, w, v: _combine(
            INPUT_MATRIX, a, lambda k: padded[n, c, t * TILE + k, w, v], data.dtype
        ),
        name=STAGE_ROWS,
    )
    image = tile_rows * tile_columns
    transformed = te.compute(
        (SPAN * SPAN, chunks, tiles, inner),
        lambda p, c, t, v: _combine(
            INPUT_MATRIX,
            tir.indexmod(p, SPAN),
            lambda k: by_rows[
                tir.indexdiv(t, image),
                c,
                tir.indexmod(tir.indexdiv(t, tile_columns), tile_rows),
                tir.indexdiv(p, SPAN),
                tir.indexmod(t, tile_columns) * TILE + k,
                v,
            ],
            data.dtype,
        ),
        name=STAGE_INPUT,
    )
    channel = te.reduce_axis((0, channels), name="channel")
    product = te.compute(
        (SPAN * SPAN, out_chunks, tiles, outer),
        lambda p, o, t, v: te.sum(
            transformed[p, tir.indexdiv(channel, inner), t, tir.indexmod(channel, inner)].astype(
                dtype
            )
            * weights[p, o, channel, v].astype(dtype),
            axis=[channel],
        ),
        name=STAGE_PRODUCT,
    )
    by_columns = te.compute(
        (out_chunks, tiles, TILE, SPAN, outer),
        lambda o, t, y, b, v: _combine(
            OUTPUT_MATRIX, y, lambda k: product[k * SPAN + b, o, t, v], dtype
        ),
        name=STAGE_COLUMNS,
    )
    return te.compute(
        (batch, out_chunks, rows, columns, outer),
        lambda n, o, h, w, v: _combine(
            OUTPUT_MATRIX,
            tir.indexmod(w, TILE),
            lambda k: by_columns[
                o,
                (n * tile_rows + tir.indexdiv(h, TILE)) * tile_columns + tir.indexdiv(w, TILE),
                tir.indexmod(h, TILE),
                k,
                v,
            ],
            dtype,
        ),
        name=STAGE_OUTPUT,
    )


def register_winograd() -> None:
    """Give TVM's Winograd operator, which has none for CPUs, a strategy; idempotent."""
    strategy = generic.conv2d_winograd_without_weight_transform_strategy
    strategy.register("cpu", _strategy)


def _strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
    chosen = relay_op.OpStrategy()
    chosen.add_implementation(_compute, _schedule, name="tvm_fusionx.winograd")
    return chosen


def _compute(attrs: Any, inputs: Any, out_type: Any) -> list[Any]:
    padding = topi.utils.get_const_tuple(attrs.padding)
    return [winograd_compute(inputs[0], inputs[1], padding, out_type.dtype)]


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])


__all__ = ["WINOGRAD", "register_winograd", "transform_weights", "winograd_compute"]
