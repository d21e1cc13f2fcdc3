"""Matrix products with factors, transposes, a bias and a function."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.linear import convert_gemm, matmul
from tvm_fusionx.frontend.converters.microsoft.activations import fused_activation
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.values import Tensor, constant

GEMM = ("alpha", "beta", "transA", "transB")


def _operand(node: SchemaNode, name: str) -> Tensor:
    """Return an operand as a product takes it, its axes in order.

    ``transBatch`` moves the first axis before the last: (rows, batch, columns) is a batch of
    (rows, columns); ``trans`` then swaps the last two.
    """
    tensor = node.named(name)
    order = list(range(tensor.rank))
    if node.attribute(f"transBatch{name}", 0) and tensor.rank > 2:
        order = [*order[1:-1], order[0], order[-1]]
    # A vector has no two axes to swap.
    if node.attribute(f"trans{name}", 0) and tensor.rank > 1:
        order = [*order[:-2], order[-1], order[-2]]
    if order == sorted(order):
        return tensor
    shape = tuple(tensor.shape[axis] for axis in order)
    if tensor.array is not None:
        return Tensor.from_array(tensor.array.transpose(order))
    return Tensor(transpose(tensor.expr, order), shape, tensor.dtype)


@microsoft("FusedMatMul", "TransposeMatMul")
def convert_fused_matmul(node: SchemaNode) -> Any:
    """Return alpha * A' B'."""
    a, b = _operand(node, "A"), _operand(node, "B")
    turned = None
    if b.rank == 2 and b.array is not None:
        turned = constant(b.array.T)
    product = matmul(a.expr, a.shape, b.expr, b.shape, b_turned=turned)
    alpha = node.attribute("alpha")
    return product if alpha == 1.0 else product * scalar(alpha, a.dtype)


@microsoft("FusedGemm")
def convert_fused_gemm(node: SchemaNode) -> Any:
    """Return act(alpha * A' B' + beta * C)."""
    inputs = [node.named("A"), node.named("B"), node.maybe("C")]
    result = convert_gemm(node.as_standard("Gemm", inputs, node.attributes_named(*GEMM)))
    named = (node.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma"))
    numbers = [number for number in named if number is not None]
    return fused_activation(node, result, node.dtype(), numbers)
