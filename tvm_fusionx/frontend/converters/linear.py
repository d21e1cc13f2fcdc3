"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

WIDE = "float64"


def swap_last_two(x: Any, rank: int) -> Any:
    """Return `x` with its last two axes swapped."""
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def turned_weights(node: Node, position: int) -> Any:
    """Return a matrix input with its axes swapped; a constant is copied once instead of thrice."""
    tensor = node.tensor(position)
    if tensor.array is not None:
        return constant(tensor.array.T)
    return transpose(tensor.expr, (1, 0))


def _flatten_batch(x: Any, shape: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    """Return `x` as [batch, rows, columns], broadcast over `batch` where it lacks it."""
    if shape[:-2] != batch:
        x = relay.broadcast_to(x, (*batch, *shape[-2:]))
    return x if len(batch) == 1 else reshape(x, (math.prod(batch), *shape[-2:]))


def matmul(
    a: Any,
    a_shape: tuple[int, ...],
    b: Any,
    b_shape: tuple[int, ...],
    out_dtype: str = "",
    b_turned: Any = None,
) -> Any:
    """Return NumPy's matrix product as ``nn.dense`` or ``nn.batch_matmul`` .

    A two-dimensional right side becomes a dense layer over the flattened left side, so that a
    constant one is transposed once, while compiling. `b_turned` is `b` with its axes swapped, where
    the caller has it already.
    """
    # A vector is a matrix of one row on the left, of one column on the right.
    left = (1, *a_shape) if len(a_shape) == 1 else a_shape
    right = (*b_shape, 1) if len(b_shape) == 1 else b_shape
    a = a if left == a_shape else reshape(a, left)
    b = b if right == b_shape else reshape(b, right)
    rows, columns = left[-2], right[-1]
    if len(right) == 2:
        flat = a if len(left) == 2 else reshape(a, (math.prod(left[:-1]), left[-1]))
        turned_b = transpose(b, (1, 0)) if b_turned is None else b_turned
        product = relay.nn.dense(flat, turned_b, out_dtype=out_dtype)
        batch = left[:-2]
        made: tuple[int, ...] = (math.prod(left[:-1]), columns)
    else:
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        flat_a = _flatten_batch(a, left, batch)
        turned_shape = (*right[:-2], columns, right[-2])
        flat_b = _flatten_batch(swap_last_two(b, len(right)), turned_shape, batch)
        product = relay.nn.batch_matmul(flat_a, flat_b, out_dtype=out_dtype)
        made = (math.prod(batch), rows, columns)
    shape = (
        *batch,
        *(() if len(a_shape) == 1 else (rows,)),
        *(() if len(b_shape) == 1 else (columns,)),
    )
    return product if shape == made else reshape(product, shape)


@converter("MatMul", through=13, because="TVM infers types over the whole graph for each one")
def convert_matmul(node: Node) -> Any:
    """Multiply matrices as NumPy does."""
    if node.rank(1) == 2:
        turned = turned_weights(node, 1)
        return matmul(node.expr(0), node.shape(0), None, node.shape(1), b_turned=turned)
    return matmul(node.expr(0), node.shape(0), node.expr(1), node.shape(1))


@converter("Gemm", through=13)
def convert_gemm(node: Node) -> Any:
    """Alpha * A' * B' + beta * C."""
    dtype = node.dtype()
    a = transpose(node.expr(0), (1, 0)) if node.attribute("transA", 0) else node.expr(0)
    b = node.expr(1) if node.attribute("transB", 0) else turned_weights(node, 1)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    # Relay's dense promises the left side's dtype, which for integers its compute does not keep.
    product = relay.nn.dense(a, b, out_dtype=dtype)
    bias = node.expr(2) if node.has(2) and beta != 0.0 else None
    return scaled_sum(product, alpha, bias, beta, dtype)


def scaled_sum(product: Any, alpha: float, bias: Any, beta: float, dtype: str) -> Any:
    """Return alpha * product + beta * bias; of whole numbers and fractions what is cut off."""
    is_whole = float(alpha).is_integer() and float(beta).is_integer()
    work = dtype if is_floating(dtype) or is_whole else WIDE

    def scaled(x: Any, factor: float) -> Any:
        x = cast(x, dtype, work)
        return x if factor == 1.0 else x * scalar(factor, work)

    total = scaled(product, alpha)
    return cast(total if bias is None else total + scaled(bias, beta), work, dtype)
