"""Weights of 4 or 8 bits in blocks that share a scale: operators that read them as they lie.

A row of a weight is cut into blocks, of 32 numbers in GGUF files, of any even number elsewhere. A
number is ``scale * level``, or ``scale * level + minimum``, of each block: float32, or halves given
by their bits (uint16). Levels of 4 bits lie two to a byte: byte ``j`` of a block's ``h`` holds
number ``j`` in the lower half, and number ``h + j`` in the upper one. Without a minimum they count
from 8, and levels of 8 bits from 0.

``levels`` is ``[N, blocks, bytes]`` with ``scales`` and ``minima`` ``[N, blocks]``, or, as
:mod:`tvm_fusionx.layout.block_weights` packs them, in panels of ``n`` rows side by side:
``[N / n, blocks, bytes, n]`` and ``[N / n, blocks, n]``; or in panels of words of four bytes, as
instructions that multiply bytes read them, ``[N / n, blocks, bytes / 4, n, 4]``.

A product may round its data: to the nearest of 255 levels of each block, ``largest / 127`` apart,
as long as a block of the weight. llama.cpp rounds so (``quantize_row_q8_0``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import DataType, relay, te, tir
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import compute_on_vectors, register_operator
from tvm_fusionx.expressions.round_even import ROUNDING

# Data ``[M, K]`` times the rows of a weight, ``[M, N]``; and rows ``[M, K]`` by their numbers.
DENSE = "fusionx.block_dense"
DENSE_WITH_MINIMA = "fusionx.block_dense_with_minima"
ROUNDED_DENSE = "fusionx.rounded_block_dense"
ROUNDED_DENSE_WITH_MINIMA = "fusionx.rounded_block_dense_with_minima"
ROWS = "fusionx.block_rows"
ROWS_WITH_MINIMA = "fusionx.block_rows_with_minima"

# Numbers of a block; of a format that llama.cpp calls Q4_0, Q4_1 or Q8_0.
BLOCK = 32
NIBBLES, BYTES = "uint8", "int8"
NIBBLES_ZERO = 8
NIBBLE_BITS = 4
NIBBLE_MASK = 15
HALF_BITS = "uint16"

# Axes of levels that lie in panels, of bytes and of words; and bytes of a word.
PANEL_AXES = 4
WORD_PANEL_AXES = 5
WORD_BYTES = 4

# Stages of a product that rounds its data.
LARGEST_STAGE, ROUNDED_STAGE = "block_largest", "block_rounded"

# Levels of rounded data on each side of 0. A block of smaller numbers than these becomes 0: their
# inverse would be no number of 32 bits.
MOST_LEVEL = 127
LEAST_LARGEST = 1e-30

# All bits of a float but its sign: as integers they are ordered as the numbers, NaN above all.
MAGNITUDE_BITS = 0x7FFFFFFF

_WEIGHT = {"levels": "In blocks.", "scales": "For each block: float32, or bits of a half."}
_MINIMA = {"minima": "For each block, as scales."}


def register_block_weights() -> None:
    """Make the six operators known to Relay; idempotent."""
    compute_on_vectors(ROUNDING)
    for name, minima, compute in (
        (DENSE, {}, _dense),
        (DENSE_WITH_MINIMA, _MINIMA, _dense),
        (ROUNDED_DENSE, {}, _rounded_dense),
        (ROUNDED_DENSE_WITH_MINIMA, _MINIMA, _rounded_dense),
    ):
        register_operator(
            name,
            {"data": "Rows of numbers.", **_WEIGHT, **minima},
            compute,
            pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
            type_relation=_dense_type,
        )
    for name, minima in ((ROWS, {}), (ROWS_WITH_MINIMA, _MINIMA)):
        register_operator(
            name,
            {"indices": "Of the rows.", **_WEIGHT, **minima},
            _rows,
            pattern=OpPattern.INJECTIVE,
            type_relation=_rows_type,
        )


def dense(data: Any, weight: Sequence[Any]) -> Any:
    """Return Relay of data ``[M, K]`` times a weight's levels, scales and, if any, minima."""
    return _call((DENSE, DENSE_WITH_MINIMA), data, weight)


def rounded_dense(data: Any, weight: Sequence[Any]) -> Any:
    """Return Relay of :func:`dense` of data that is rounded to 8 bits a block."""
    return _call((ROUNDED_DENSE, ROUNDED_DENSE_WITH_MINIMA), data, weight)


def rows(indices: Any, weight: Sequence[Any]) -> Any:
    """Return Relay of a weight's rows as float32 ``[M, K]``, at indices ``[M]``.

    An index outside is that of the first or the last row.
    """
    return _call((ROWS, ROWS_WITH_MINIMA), indices, weight)


def _call(names: tuple[str, str], first: Any, weight: Sequence[Any]) -> Any:
    register_block_weights()
    name = names[len(weight) > len(_WEIGHT)]
    return relay.Call(relay.op.get(name), [first, *weight])


def block_numbers(levels: Any) -> int:
    """Return how many numbers a block has, from the type and shape of its levels."""
    return _block_numbers([int(extent) for extent in levels.shape], str(levels.dtype))


def _block_numbers(shape: Sequence[int], dtype: str) -> int:
    word = WORD_BYTES if len(shape) == WORD_PANEL_AXES else 1
    return shape[2] * word * (2 if dtype == NIBBLES else 1)


def single(stored: Any) -> Any:
    """Return a scale or a minimum, or a vector of them, as float32."""
    if not stored.dtype.startswith(HALF_BITS):
        return stored
    return half(stored)


def half(bits: Any) -> Any:
    """Return the half that bits are, or those of a vector, as float32."""
    lanes = bits.dtype.removeprefix(HALF_BITS)
    return tir.Cast(f"float32{lanes}", tir.reinterpret(f"float16{lanes}", bits))


def extents(levels: Any) -> tuple[int, int]:
    """Return the rows of a weight and the numbers in each, from the shape of its levels."""
    # Asked for each call by every inference of types: each axis is read once.
    shape = [int(extent) for extent in levels.shape]
    lanes = shape[PANEL_AXES - 1] if len(shape) >= PANEL_AXES else 1
    return shape[0] * lanes, shape[1] * _block_numbers(shape, str(levels.dtype))


def number_at(weight: Sequence[Any], row: Any, column: Any) -> Any:
    """Return one number of a weight, of which `weight` are levels, scales and, if any, minima."""
    levels, *halves = weight
    size = block_numbers(levels)
    block, within = column // size, column % size
    place, shift = within, None
    if levels.dtype == NIBBLES:
        half_block = size // 2
        place, shift = within % half_block, within // half_block * NIBBLE_BITS
    if len(levels.shape) >= PANEL_AXES:
        width = levels.shape[3]
        panel, lane = row // width, row % width
        at = [place, lane]
        if len(levels.shape) == WORD_PANEL_AXES:
            at = [place // WORD_BYTES, lane, place % WORD_BYTES]
        level = levels(panel, block, *at)
        scale, *minimum = (single(each[panel, block, lane]) for each in halves)
    else:
        level = levels[row, block, place]
        scale, *minimum = (single(each[row, block]) for each in halves)
    level = level.astype("int32")
    if shift is not None:
        level = (level >> shift) & NIBBLE_MASK
        level = level if minimum else level - NIBBLES_ZERO
    number = scale * level.astype("float32")
    return number + minimum[0] if minimum else number


def magnitude(number: Any) -> Any:
    """Return the size of a float, or of each of a vector, as an integer ordered alike."""
    dtype = number.dtype.replace("float", "int")
    bits = tir.const(MAGNITUDE_BITS, "int32")
    lanes = DataType(dtype).lanes
    bits = tir.Broadcast(bits, lanes) if lanes > 1 else bits
    return tir.reinterpret(dtype, number) & bits


def step_and_inverse(largest: Any) -> tuple[Any, Any]:
    """Return how far apart a block's levels are, and what makes levels of numbers.

    Parameters
    ----------
    largest
        The largest :func:`magnitude` of a block.
    """
    most = tir.reinterpret("float32", largest)
    step = most * tir.const(1 / MOST_LEVEL, "float32")
    # A block with a NaN has a step of NaN, and so have its products.
    is_some = most >= tir.const(LEAST_LARGEST, "float32")
    inverse = tir.Select(is_some, tir.const(MOST_LEVEL, "float32") / most, tir.const(0, "float32"))
    return step, inverse


def _rounded_dense(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    data, *weight = inputs
    size = block_numbers(weight[0])
    j = te.reduce_axis((0, size), name="j")
    largest = te.compute(
        (data.shape[0], int(weight[0].shape[1])),
        lambda m, b: te.max(magnitude(data[m, b * size + j]), axis=j),
        name=LARGEST_STAGE,
    )

    def rounded(m: Any, k: Any) -> Any:
        step, inverse = step_and_inverse(largest[m, k // size])
        return tir.nearbyint(data[m, k] * inverse) * step

    levels = te.compute(data.shape, rounded, name=ROUNDED_STAGE)
    return _dense(attrs, [levels, *weight], out_type)


def _dense(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    data, *weight = inputs
    count, length = extents(weight[0])
    k = te.reduce_axis((0, length), name="k")
    return [
        te.compute(
            (data.shape[0], count),
            lambda m, n: te.sum(data[m, k] * number_at(weight, n, k), axis=k),
            name="block_dense",
        )
    ]


def _rows(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    indices, *weight = inputs
    count, length = extents(weight[0])
    return [
        te.compute(
            (indices.shape[0], length),
            lambda m, k: number_at(weight, te.max(te.min(indices[m], count - 1), 0), k),
            name="block_rows",
        )
    ]


def _dense_type(operands: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    data, levels, *_ = operands
    return relay.TensorType((data.shape[0], extents(levels)[0]), "float32")


def _rows_type(operands: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    indices, levels, *_ = operands
    return relay.TensorType((indices.shape[0], extents(levels)[1]), "float32")
