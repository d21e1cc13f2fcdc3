"""Quantized operators, as arithmetic on wider types."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.block_weights import BYTES, in_blocks, why_not_blocks
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.convolution import convert_conv
from tvm_fusionx.frontend.converters.elementwise import round_half_even
from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.slicing import take
from tvm_fusionx.frontend.element_types import ELEMENTS, LIMITS, dtype_of
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, constant

MATRIX_RANK = 2
SINGLE = "float32"

# Integers that a processor may multiply as they are.
SHORT = (*BYTES, "int16", "uint16")


def _shape_along(tensor: Tensor, rank: int, axis: int) -> tuple[int, ...]:
    """Return the shape in which a scale or zero point broadcasts along `axis`."""
    if tensor.rank == 0 or tensor.shape == (1,):
        return ()
    if tensor.rank == 1:
        return tuple(-1 if i == axis else 1 for i in range(rank))
    return tensor.shape


def along_axis(node: Node, position: int, rank: int, axis: int) -> Any:
    """Return a scale or zero point shaped to broadcast along `axis`; a scalar as it is."""
    tensor = node.tensor(position)
    shape = _shape_along(tensor, rank, axis)
    return tensor.expr if shape == tensor.shape else reshape(tensor.expr, shape)


def block_numbers(node: Node, position: int, axis: int) -> Any:
    """Return the number of each element's block along `axis`; the last block may be cut.

    Raises
    ------
    UnsupportedOperatorError
        If a scale or zero point has not one entry for each block.
    """
    block, shape = int(node.attribute("block_size", 0)), node.shape()
    blocks = tuple(-(-size // block) if i == axis else size for i, size in enumerate(shape))
    if node.shape(position) != blocks:
        name = ("data", "scale", "zero point")[position]
        expected = f"a {name} of {list(blocks)} for blocks of {block} along axis {axis}"
        raise node.refuse(expected, str(list(node.shape(position))))
    return np.arange(shape[axis]) // block


def _parameter(node: Node, position: int) -> Any:
    axis = node.axis(1)
    if node.attribute("block_size", 0):
        return take(node.expr(position), block_numbers(node, position, axis), axis)
    return along_axis(node, position, node.rank(), axis)


def _known_parameter(node: Node, position: int) -> Any:
    axis, tensor = node.axis(1), node.tensor(position)
    if node.attribute("block_size", 0):
        return np.take(tensor.array, block_numbers(node, position, axis), axis)
    return np.reshape(tensor.array, _shape_along(tensor, node.rank(), axis))


def limits_of(element: int, dtype: str) -> tuple[int, int]:
    """Return the smallest and largest number of an integer element type."""
    limits = np.iinfo(dtype)
    return LIMITS.get(element, (int(limits.min), int(limits.max)))


def saturate(x: Any, zero: Any, element: int, dtype: str) -> Any:
    """Return round(x) + zero, clipped to the integer type; x is float32, zero is int32."""
    low, high = limits_of(element, dtype)
    shifted = round_half_even(x, "float32")
    if zero is not None:
        shifted = shifted + relay.cast(zero, "float32")
    return relay.cast(relay.clip(shifted, float(low), float(high)), dtype)


@converter("QuantizeLinear", through=28, because="TVM quantizes int4 and blocks as other types")
def convert_quantize_linear(node: Node) -> Any:
    """round(x / scale) + zero point, saturated."""
    if node.has(2):
        element = node.tensor(2).element
    else:
        element = int(node.attribute("output_dtype", 0)) or ELEMENTS["uint8"]
    target = dtype_of(element, f"QuantizeLinear node {node.name!r}")
    known = _quantize_known(node, element, target)
    if known is not None:
        return known
    # Quotients of halves are single, whatever `precision` allows: it is a bound from below.
    x = cast(node.expr(), node.dtype(), "float32")
    scaled = x / cast(_parameter(node, 1), node.dtype(1), "float32")
    zero = cast(_parameter(node, 2), node.dtype(2), "int32") if node.has(2) else None
    return saturate(scaled, zero, element, target)


def _quantize_known(node: Node, element: int, dtype: str) -> Any:
    """Return constants quantized as a kernel does it, or None where an input is none.

    Integers of less than eight bits, whose dtype does not tell so, stay for a kernel.
    """
    positions = (0, 1, 2) if node.has(2) else (0, 1)
    is_known = all(node.tensor(position).array is not None for position in positions)
    if element in LIMITS or not is_known:
        return None
    with np.errstate(all="ignore"):
        whole = np.rint(node.array(0).astype(SINGLE) / _known_parameter(node, 1).astype(SINGLE))
        if node.has(2):
            whole += _known_parameter(node, 2).astype(SINGLE)
        return np.clip(whole, *limits_of(element, dtype)).astype(dtype)


@converter("DequantizeLinear", through=28, because="TVM fails on blocks")
def convert_dequantize_linear(node: Node) -> Any:
    """(x - zero point) * scale."""
    if why_not_one_operator(node) is None:
        return _dequantize(node)
    if why_not_block_matrix(node) is None:
        return _dequantize_blocks(node)
    target = _dequantized_dtype(node)
    known = _dequantize_known(node)
    if known is not None:
        return known.astype(target)
    wide = cast(node.expr(), node.dtype(), "int32")
    if node.has(2):
        wide = wide - cast(_parameter(node, 2), node.dtype(2), "int32")
    scale = cast(_parameter(node, 1), node.dtype(1), "float32")
    return cast(relay.cast(wide, "float32") * scale, "float32", target)


def _dequantize_known(node: Node) -> Any:
    """Return constants dequantized in float32, or None where an input is none.

    Done here, such weights take the room of the bytes and of the floats, and no third.
    """
    positions = (0, 1, 2) if node.has(2) else (0, 1)
    if any(node.tensor(position).array is None for position in positions):
        return None
    result = node.array(0).astype("float32")
    if node.has(2):
        result -= _known_parameter(node, 2).astype("float32")
    return result * _known_parameter(node, 1).astype("float32")


def _dequantized_dtype(node: Node) -> str:
    to = int(node.attribute("output_dtype", 0))
    return dtype_of(to, f"DequantizeLinear node {node.name!r}") if to else node.dtype(1)


def is_quantized_matrix(node: Node) -> bool:
    """Tell whether a node dequantizes constant weights, which a product may read as integers."""
    if node.op_type != "DequantizeLinear" or node.tensor(0).array is None:
        return False
    is_one = node.rank() >= MATRIX_RANK and why_not_one_operator(node) is None
    return is_one or why_not_block_matrix(node) is None


def why_not_one_operator(node: Node) -> str | None:
    """Return why a ``DequantizeLinear`` is no ``qnn.dequantize``, or None."""
    if node.attribute("block_size", 0):
        return "it dequantizes blocks"
    # Constants of 16 bits are folded: only activations are multiplied so.
    short = SHORT if node.tensor(0).array is None else BYTES
    if node.tensor(0).is_narrow or node.dtype() not in short or node.dtype(1) != "float32":
        return f"it makes {node.dtype(1)} of {node.dtype()}"
    if _dequantized_dtype(node) != "float32":
        return f"it makes {_dequantized_dtype(node)}"
    if any(node.has(position) and node.tensor(position).array is None for position in (1, 2)):
        return "its parameters are computed"
    if node.rank() == 0 or node.rank(1) > 1:
        return "it has no axis, or its parameters have several"
    return None


def why_not_block_matrix(node: Node) -> str | None:
    """Return why a ``DequantizeLinear`` is no constant matrix whose products may read blocks."""
    positions = (0, 1, 2) if node.has(2) else (0, 1)
    if any(node.tensor(position).array is None for position in positions):
        return "it is computed"
    if node.rank() != MATRIX_RANK or not node.attribute("block_size", 0):
        return "it is no matrix in blocks"
    if _dequantized_dtype(node) != "float32":
        return f"it makes {_dequantized_dtype(node)}"
    block_numbers(node, 1, node.axis(1))
    levels, _, zeros = _rows_in_blocks(node)
    return why_not_blocks(levels, zeros, int(node.attribute("block_size")))


def _rows_in_blocks(node: Node) -> tuple[Any, Any, Any]:
    """Return levels, scales and zero points with the axis of the blocks last."""
    levels, scales = node.array(0), node.array(1)
    zeros = node.array(2) if node.has(2) else np.zeros(scales.shape, "int32")
    turn = node.axis(1) == 0
    parts = (part.T if turn else part for part in (levels, scales, zeros))
    levels, scales, zeros = (np.ascontiguousarray(part) for part in parts)
    return levels, scales, zeros


def _dequantize_blocks(node: Node) -> Any:
    result = in_blocks(*_rows_in_blocks(node))
    return relay.transpose(result, (1, 0)) if node.axis(1) == 0 else result


def _dequantize(node: Node) -> Any:
    scale = node.array(1)
    zero = node.array(2).astype("int32") if node.has(2) else np.zeros(scale.shape, "int32")
    # A vector of one is one number.
    shape = scale.shape if scale.size > 1 else ()
    parameters = (constant(scale.reshape(shape)), constant(zero.reshape(shape)))
    return relay.qnn.op.dequantize(node.expr(), *parameters, axis=node.axis(1))


@converter("MatMulInteger", through=10)
def convert_matmul_integer(node: Node) -> Any:
    """Multiply 8-bit matrices less their zero points, in 32 bits."""
    a = cast(node.expr(0), node.dtype(0), "int32")
    b = cast(node.expr(1), node.dtype(1), "int32")
    if node.has(2):
        a = a - cast(along_axis(node, 2, node.rank(0), node.rank(0) - 2), node.dtype(2), "int32")
    if node.has(3):
        b = b - cast(along_axis(node, 3, node.rank(1), node.rank(1) - 1), node.dtype(3), "int32")
    return matmul(a, node.shape(0), b, node.shape(1), "int32")


def dequantized(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, axis: int = 1) -> Tensor:
    """Return the numbers that a quantized operand of `node` stands for.

    Of bytes with known parameters they are what a ``DequantizeLinear`` makes, so the product of two
    becomes one of integers where the processor has an instruction for it.
    """
    # A scale may be half; what it makes is not, or sums of products would be rounded to halves.
    inputs, names = [x, _single(scale), zero], [""] * 3
    inner = Node(node.name, "DequantizeLinear", node.version, {"axis": axis}, inputs, [""], names)
    result = convert_dequantize_linear(inner)
    if isinstance(result, np.ndarray):
        return Tensor.from_array(result)
    return Tensor(result, x.shape, "float32")


def _single(scale: Tensor) -> Tensor:
    if scale.dtype == "float32":
        return scale
    if scale.array is not None:
        return Tensor.from_array(scale.array.astype("float32"))
    return Tensor(cast(scale.expr, scale.dtype, "float32"), scale.shape, "float32")


def _operand(node: Node, position: int, axis: int) -> Tensor:
    """Return an input that a scale and a zero point follow, dequantized."""
    zero = node.tensor(position + 2) if node.has(position + 2) else None
    return dequantized(node, node.tensor(position), node.tensor(position + 1), zero, axis)


@converter("QLinearMatMul", through=21, because="TVM rounds in the wrong place for int8")
def convert_qlinear_matmul(node: Node) -> Any:
    """Multiply, then quantize once."""
    rank_a, rank_b = node.rank(0), node.rank(3)
    # Rows of the left side may have scales of their own, and columns of the right one.
    a = _operand(node, 0, max(rank_a - 2, 0))
    b = _operand(node, 3, max(rank_b - 1, 0))
    product = matmul(a.expr, a.shape, b.expr, b.shape)
    scale = cast(along_axis(node, 6, rank_a, rank_a - 2), node.dtype(6), "float32")
    zero = cast(along_axis(node, 7, rank_a, rank_a - 2), node.dtype(7), "int32")
    return saturate(product / scale, zero, node.tensor(7).element, node.dtype(7))


def dequantized_bias(bias: Tensor, scale: Tensor, weight_scale: Tensor) -> Any:
    """Return a bias of integers, at the scale of data and weights together, as floats."""
    arrays = [tensor.array for tensor in (bias, scale, weight_scale)]
    if all(array is not None for array in arrays):
        numbers, data, weights = (array.reshape(-1).astype("float32") for array in arrays)
        return constant(numbers * (data * weights))
    both = reshape(scale.expr, (-1,)) * reshape(weight_scale.expr, (-1,))
    return relay.cast(bias.expr, "float32") * both


@converter("QLinearConv", through=10)
def convert_qlinear_conv(node: Node) -> Any:
    """Convolve, then quantize once."""
    inputs: list[Any] = [_operand(node, 0, 1), _operand(node, 3, 0)]
    names = [""] * len(inputs)
    convolution = Node(node.name, "Conv", node.version, node.attributes, inputs, [""], names)
    result = convert_conv(convolution)
    if node.has(8):
        bias = dequantized_bias(node.tensor(8), node.tensor(1), node.tensor(4))
        result = relay.nn.bias_add(result, bias)
    scaled = result / reshape(node.expr(6), ())
    zero = cast(reshape(node.expr(7), ()), node.dtype(7), "int32")
    return saturate(scaled, zero, node.tensor(7).element, node.dtype(7))
