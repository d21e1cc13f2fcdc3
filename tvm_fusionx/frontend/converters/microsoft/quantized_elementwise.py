"""Quantized operators that compute each element from those at its place, and joins."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.activations import convert_softmax
from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import numbers, quantized
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.values import Tensor

# Inputs of QLinearConcat before the first part, and inputs of a part.
BEFORE_PARTS, A_PART = 2, 3


def _operand(node: SchemaNode, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    return node.named(name), node.named(f"{name}_scale"), node.maybe(f"{name}_zero_point")


@microsoft("QLinearAdd", "QLinearMul")
def convert_qlinear_binary(node: SchemaNode) -> Any:
    """Add or multiply the numbers that two quantized tensors stand for."""
    a, b = (numbers(node, *_operand(node, side)) for side in ("A", "B"))
    result = a + b if node.op_type.endswith("Add") else a * b
    return quantized(
        result, node.named("C_scale"), node.maybe("C_zero_point"), like=node.named("A")
    )


def _unary(node: SchemaNode) -> tuple[Any, Tensor]:
    x = node.named("X")
    return numbers(node, x, node.named("X_scale"), node.maybe("X_zero_point")), x


@microsoft("QLinearSigmoid")
def convert_qlinear_sigmoid(node: SchemaNode) -> Any:
    """1 / (1 + exp(-x)) of quantized numbers."""
    x, like = _unary(node)
    result = relay.sigmoid(x)
    return quantized(result, node.named("Y_scale"), node.maybe("Y_zero_point"), like)


@microsoft("QLinearLeakyRelu")
def convert_qlinear_leaky_relu(node: SchemaNode) -> Any:
    """Return x where positive, alpha * x elsewhere, of quantized numbers."""
    x, like = _unary(node)
    result = relay.nn.leaky_relu(x, float(node.attribute("alpha")))
    return quantized(result, node.named("Y_scale"), node.maybe("Y_zero_point"), like)


@microsoft("QLinearSoftmax")
def convert_qlinear_softmax(node: SchemaNode) -> Any:
    """exp(x) / sum(exp(x)) of quantized numbers; ``opset`` says whose softmax."""
    like = node.named("X")
    x = numbers(node, like, node.named("X_scale"), node.maybe("x_zero_point"))
    softmax = node.as_standard(
        "Softmax", [Tensor(x, like.shape, "float32")], node.attributes_named("axis")
    )
    softmax.version = int(node.attribute("opset"))
    result = convert_softmax(softmax)
    return quantized(result, node.named("y_scale"), node.named("y_zero_point"), like)


@microsoft("QLinearConcat")
def convert_qlinear_concat(node: SchemaNode) -> Any:
    """Join quantized tensors along an axis, all at the scale of the result."""
    scale, zero = node.tensor(0), node.tensor(1)
    count, rest = divmod(len(node.inputs) - BEFORE_PARTS, A_PART)
    if rest or count < 1:
        found = f"{len(node.inputs) - BEFORE_PARTS} inputs"
        raise node.refuse("a tensor, a scale and a zero point for each part", found)
    parts = []
    first = node.tensor(BEFORE_PARTS)
    for at in range(BEFORE_PARTS, len(node.inputs), A_PART):
        part, part_scale = node.tensor(at), node.tensor(at + 1)
        part_zero = node.tensor(at + 2) if node.has(at + 2) else None
        if 0 not in part.shape:
            parts.append(quantized(numbers(node, part, part_scale, part_zero), scale, zero, part))
    return relay.concatenate(parts, node.axis(1, first.rank))


@microsoft("QLinearWhere")
def convert_qlinear_where(node: SchemaNode) -> Any:
    """Select elements of two quantized tensors."""
    x, y = (
        numbers(node, node.named(name), node.named(f"{low}_scale"), node.named(f"{low}_zero_point"))
        for name, low in (("X", "x"), ("Y", "y"))
    )
    result = relay.where(node.named("condition").expr, x, y)
    return quantized(result, node.named("z_scale"), node.named("z_zero_point"), node.named("X"))
