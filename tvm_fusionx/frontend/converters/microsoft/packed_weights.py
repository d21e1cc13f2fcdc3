"""Weights of a few bits, packed in bytes.

Those in whole blocks stay integers until the target is known, others become floats here, which take
eight times the room of four bits. A table that only rows are taken of stays in bytes, and its rows
become floats as they are taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.block_weights import in_blocks, why_not_blocks
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.slicing import take
from tvm_fusionx.frontend.element_types import STORED_WIDER
from tvm_fusionx.frontend.values import constant

Array = np.ndarray[Any, Any]

BITS_OF_A_BYTE = 8
SMALLEST_BLOCK = 16

# Dettmers et al., "QLoRA", appendix E, and bitsandbytes' table of four-bit floats, by code.
NORMAL_FLOAT = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
FLOAT_OF_FOUR_BITS = (0.0, 0.005208333, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)


def known(node: SchemaNode, name: str) -> Array:
    """Return the numbers of a weight, which must be known while compiling.

    Raises
    ------
    UnsupportedOperatorError
        If they are computed at run time.
    """
    return node.array(node.position(name), "weights are unpacked then")


def unpack(packed: Array, bits: int) -> Array:
    """Return the numbers of `bits` bits along the last axis, the lowest bits of a byte first."""
    if bits == BITS_OF_A_BYTE:
        return packed
    if BITS_OF_A_BYTE % bits == 0:
        shifts = np.arange(0, BITS_OF_A_BYTE, bits, dtype="uint8")
        parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
        return parts.reshape(*packed.shape[:-1], -1)
    stream = np.unpackbits(packed, axis=-1, bitorder="little")
    count = stream.shape[-1] // bits
    digits = stream[..., : count * bits].reshape(*packed.shape[:-1], count, bits)
    return np.sum(digits << np.arange(bits, dtype="uint8"), axis=-1, dtype="uint8")


def _zero_points(node: SchemaNode, rows: int, blocks: int, bits: int) -> Array:
    """Return (rows, blocks) zero points, as float32."""
    if not node.gives("zero_points"):
        return np.full((rows, blocks), 1 << (bits - 1), "float32")
    given = known(node, "zero_points")
    if given.dtype != np.uint8:
        return given.reshape(rows, blocks).astype("float32")
    # Each row begins with a byte of its own.
    return unpack(given.reshape(rows, -1), bits)[:, :blocks].astype("float32")


@microsoft("MatMulNBits")
def convert_matmul_nbits(node: SchemaNode) -> Any:
    """Multiply by (q - zero point) * scale, one scale and zero point for each block of a column."""
    bits, size = node.expects("bits", 2, 3, 4, 5, 6, 7, 8), int(node.attribute("block_size"))
    rows, length = int(node.attribute("N")), int(node.attribute("K"))
    if node.attribute("weight_prepacked"):
        raise node.refuse("weights in the order of the schema", "weight_prepacked, for one GPU")
    if size < SMALLEST_BLOCK or size & (size - 1):
        raise node.refuse("a block_size that is a power of two from 16 on", str(size))
    blocks = -(-length // size)
    packed = known(node, "B")
    room = rows * blocks * size * bits // BITS_OF_A_BYTE
    if packed.size != room:
        expected = f"weights of {room} bytes for N={rows}, K={length} at {bits} bits"
        raise node.refuse(expected, f"shape {list(packed.shape)}")
    levels = unpack(packed.reshape(rows, blocks, -1), bits).reshape(rows, -1)[:, :length]
    scales = known(node, "scales").reshape(rows, blocks).astype("float32")
    zeros = _zero_points(node, rows, blocks, bits)
    a = node.named("A")
    if not node.gives("g_idx") and why_not_blocks(levels, zeros, size) is None:
        x = cast(a.expr, a.dtype, "float32")
        kept = in_blocks(levels, scales, zeros)
        result = matmul(x, a.shape, None, (length, rows), b_turned=kept)
        result = cast(result, "float32", a.dtype)
    else:
        group = np.arange(length) // size
        if node.gives("g_idx"):
            group = known(node, "g_idx")[:length]
        weights = levels.astype("float32")
        weights -= zeros[:, group]
        weights *= scales[:, group]
        turned = constant(weights.astype(a.dtype, copy=False))
        result = matmul(a.expr, a.shape, None, (length, rows), b_turned=turned)
    bias = node.maybe("bias")
    return result if bias is None else result + bias.expr


@microsoft("MatMulBnb4")
def convert_matmul_bnb4(node: SchemaNode) -> Any:
    """Multiply by weights that are codes of a table of sixteen floats, scaled by block."""
    kind = node.expects("quant_type", 0, 1)
    node.expects("training_mode", 0)
    rows, length = int(node.attribute("N")), int(node.attribute("K"))
    size = int(node.attribute("block_size"))
    low = np.asarray(FLOAT_OF_FOUR_BITS, "float32")
    table = np.asarray(NORMAL_FLOAT, "float32") if kind else np.concatenate([low, -low])
    packed = known(node, "B").reshape(-1)
    # The first number of a byte lies in its upper half.
    codes = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[: rows * length]
    scales = np.repeat(known(node, "absmax").reshape(-1), size)[: rows * length]
    weights = (table[codes] * scales).reshape(rows, length)
    a = node.named("A")
    if node.attribute("transB"):
        return matmul(a.expr, a.shape, None, (length, rows), b_turned=constant(weights))
    return matmul(a.expr, a.shape, None, (rows, length), b_turned=constant(weights.T.copy()))


def _table(node: SchemaNode) -> tuple[Array, int]:
    """Return the numbers of a table, one in a byte, and the zero point where none is given."""
    data, bits = node.named("data"), int(node.expects("bits", 2, 4, 8))
    array = known(node, "data")
    if data.element in STORED_WIDER:
        return array, 0
    if array.dtype != np.uint8:
        raise node.refuse("data of int4, uint4 or uint8", str(array.dtype))
    return unpack(array, bits), 1 << (bits - 1)


@microsoft("GatherBlockQuantized")
def convert_gather_block_quantized(node: SchemaNode) -> Any:
    """Take slices of a quantized table; (q - zero point) * scale of those alone."""
    levels, default_zero = _table(node)
    rank = levels.ndim
    gather_axis = node.axis(0, rank, "gather_axis")
    axis, size = node.axis(1, rank, "quantize_axis"), int(node.attribute("block_size"))
    scales = known(node, "scales")
    zeros = known(node, "zero_points") if node.gives("zero_points") else None
    if zeros is not None and node.named("zero_points").element not in STORED_WIDER:
        zeros = unpack(zeros, int(node.attribute("bits")))[..., : scales.shape[-1]]
    blocks = np.arange(levels.shape[axis]) // size
    indices = node.named("indices")
    count = levels.shape[gather_axis]
    index = relay.where(
        relay.less(indices.expr, scalar(0, indices.dtype)),
        indices.expr + scalar(count, indices.dtype),
        indices.expr,
    )
    shift = indices.rank - 1

    def rows_of(table: Array) -> Any:
        """Return what lies at the indices, of one entry for each number or each block."""
        if table.shape[axis] != levels.shape[axis] and axis == gather_axis:
            table = np.take(table, blocks, axis)
        taken = relay.take(constant(table), index, axis=gather_axis, mode="clip")
        if table.shape[axis] == levels.shape[axis]:
            return taken
        return take(taken, blocks, axis + shift if axis > gather_axis else axis)

    wide = cast(rows_of(levels), str(levels.dtype), "int32")
    if zeros is not None:
        wide = wide - cast(rows_of(zeros), str(zeros.dtype), "int32")
    elif default_zero:
        wide = wide - scalar(default_zero, "int32")
    result = relay.cast(wide, "float32") * cast(rows_of(scales), str(scales.dtype), "float32")
    return cast(result, "float32", str(scales.dtype))
