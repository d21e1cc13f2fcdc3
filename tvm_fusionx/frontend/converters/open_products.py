"""Matrix products of as many rows or columns as the data says."""

from __future__ import annotations

import math
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.linear import scaled_sum
from tvm_fusionx.frontend.converters.open_shapes import restored
from tvm_fusionx.frontend.converters.registry import open_converter
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.node import Node

# Axes of a matrix.
MATRIX = 2


def _product(node: Node, is_turned: bool) -> Any:
    """Return the product of two operands, of which the second may lie transposed."""
    x, y = node.tensor(0), node.tensor(1)
    if x.rank < MATRIX or y.rank < MATRIX:
        raise _refused(node, "matrices")
    if y.rank > MATRIX:
        return _products_of_batches(node)
    weights = node.expr(1) if is_turned else transpose(node.expr(1), (1, 0))
    columns = y.dims[0 if is_turned else 1]
    flat = x.expr
    if x.rank > MATRIX:
        if x.dims[-1] is None:
            raise _refused(node, "rows of a length known while compiling")
        flat = relay.reshape(x.expr, (-1, x.dims[-1]))
    made = relay.nn.dense(flat, weights, units=columns, out_dtype=node.dtype())
    if x.rank == MATRIX:
        return made
    dims = [*x.dims[:-1], columns]
    if sum(dim is None for dim in dims) > 1:
        raise _refused(node, "one extent that depends on the data")
    return restored(made, dims)


def _products_of_batches(node: Node) -> Any:
    """Return the products of matrices that lie in as many batches on both sides."""
    x, y = node.tensor(0), node.tensor(1)
    if x.dims[:-MATRIX] != y.dims[:-MATRIX] or None in x.dims[:-MATRIX]:
        raise _refused(node, "the same batches of a number known while compiling")
    batches = math.prod(dim or 1 for dim in x.dims[:-MATRIX])
    sides = []
    for tensor in (x, y):
        rows, columns = tensor.dims[-MATRIX:]
        if tensor.rank > MATRIX + 1 and rows is None and columns is None:
            raise _refused(node, "one extent of a matrix that depends on the data")
        shape = [batches, -1 if rows is None else rows, -1 if columns is None else columns]
        is_flat = tensor.rank == MATRIX + 1
        sides.append(tensor.expr if is_flat else relay.reshape(tensor.expr, shape))
    left, right = sides[0], transpose(sides[1], (0, 2, 1))
    made = relay.nn.batch_matmul(left, right, out_dtype=node.dtype())
    if x.rank == MATRIX + 1:
        return made
    dims = [*x.dims[:-1], y.dims[-1]]
    if sum(dim is None for dim in dims) > 1:
        raise _refused(node, "one extent of the result that depends on the data")
    return restored(made, dims)


def _refused(node: Node, what: str) -> Exception:
    return node.refuse(
        f"{what}, where a shape depends on the data",
        f"{node.tensor(0).shape_text} and {node.tensor(1).shape_text}",
    )


@open_converter("MatMul", through=28)
def convert_matmul(node: Node) -> Any:
    """Multiply rows by a matrix."""
    return _product(node, is_turned=False)


@open_converter("Gemm", through=28)
def convert_gemm(node: Node) -> Any:
    """Multiply rows by a matrix, scaled, and add another."""
    if node.attribute("transA", 0):
        raise node.refuse("rows that lie along the first axis", "transA=1")
    made = _product(node, bool(node.attribute("transB", 0)))
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    bias = node.expr(2) if node.has(2) and beta else None
    return scaled_sum(made, alpha, bias, beta, node.dtype())
