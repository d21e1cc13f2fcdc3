"""Matrix products of as many rows as the data says, by a matrix of known size."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.open_shapes import restored
from tvm_fusionx.frontend.converters.registry import open_converter
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.node import Node

# Axes of a matrix.
MATRIX = 2


def _product(node: Node, is_turned: bool) -> Any:
    x, dims = node.expr(), node.tensor(0).dims
    if node.is_open(1) or node.rank(1) != MATRIX or dims[-1] is None:
        raise node.refuse(
            "a matrix of known size as the second operand, where a shape depends on the data",
            f"{node.tensor(0).shape_text} and {node.tensor(1).shape_text}",
        )
    weights = node.expr(1) if is_turned else transpose(node.expr(1), (1, 0))
    columns = node.shape(1)[0 if is_turned else 1]
    flat = x if len(dims) == MATRIX else relay.reshape(x, (-1, dims[-1]))
    made = relay.nn.dense(flat, weights, units=columns, out_dtype=node.dtype())
    if len(dims) == MATRIX:
        return made
    if sum(dim is None for dim in dims) > 1:
        raise node.refuse("one extent that depends on the data", node.tensor(0).shape_text)
    return restored(made, [*dims[:-1], columns])


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
    made = made if alpha == 1.0 else made * scalar(alpha, node.dtype())
    if not node.has(2) or not beta:
        return made
    return made + (node.expr(2) if beta == 1.0 else node.expr(2) * scalar(beta, node.dtype()))
