"""Activation functions that ONNX Runtime fuses, and those that it fuses into other operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft

# Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2.
CUBIC = 0.044715

# name -> (defaults of its numbers, (x, dtype, numbers) -> result).
FusedActivation = Callable[[Any, str, Sequence[float]], Any]


def _hard_sigmoid(x: Any, dtype: str, numbers: Sequence[float]) -> Any:
    alpha, beta = numbers
    return relay.clip(x * scalar(alpha, dtype) + scalar(beta, dtype), 0.0, 1.0)


def _clip(x: Any, dtype: str, numbers: Sequence[float]) -> Any:
    low, high = numbers
    return relay.clip(x, low, high)


# ONNX Runtime's graph optimizer writes these into FusedConv and FusedGemm.
FUSED: Mapping[str, tuple[tuple[float, ...] | None, FusedActivation]] = {
    "Clip": (None, _clip),
    "HardSigmoid": ((0.2, 0.5), _hard_sigmoid),
    "LeakyRelu": ((0.01,), lambda x, dtype, numbers: relay.nn.leaky_relu(x, numbers[0])),
    "Relu": ((), lambda x, dtype, numbers: relay.nn.relu(x)),
    "Sigmoid": ((), lambda x, dtype, numbers: relay.sigmoid(x)),
    "Tanh": ((), lambda x, dtype, numbers: relay.tanh(x)),
}


def fused_activation(node: SchemaNode, x: Any, dtype: str, numbers: Sequence[float]) -> Any:
    """Return `x` after the node's attribute ``activation``, with its parameters.

    Raises
    ------
    UnsupportedOperatorError
        For an unknown function or a wrong number of parameters.
    """
    name = node.attribute("activation")
    if not name:
        return x
    if name not in FUSED:
        raise node.refuse(f"an activation among {', '.join(FUSED)}", repr(name))
    defaults, function = FUSED[name]
    wanted = 2 if defaults is None else len(defaults)
    given = list(numbers) if numbers else list(defaults or ())
    if len(given) != wanted:
        raise node.refuse(f"{wanted} parameters of {name}", str(list(numbers)))
    return function(x, dtype, [float(number) for number in given])


def gelu(x: Any, dtype: str) -> Any:
    """Return x / 2 * (1 + erf(x / sqrt(2)))."""
    inner = relay.erf(x * scalar(math.sqrt(0.5), dtype))
    return scalar(0.5, dtype) * x * (scalar(1, dtype) + inner)


def gelu_by_tanh(x: Any, dtype: str) -> Any:
    """Return the approximation of gelu by the hyperbolic tangent."""
    cubed = x * x * x * scalar(CUBIC, dtype)
    inner = relay.tanh(scalar(math.sqrt(2 / math.pi), dtype) * (x + cubed))
    return scalar(0.5, dtype) * x * (scalar(1, dtype) + inner)


@microsoft("Gelu")
def convert_gelu(node: SchemaNode) -> Any:
    """Return x / 2 * (1 + erf(x / sqrt(2)))."""
    return gelu(node.expr(), node.dtype())


@microsoft("BiasGelu")
def convert_bias_gelu(node: SchemaNode) -> Any:
    """Return the gelu of a sum."""
    return gelu(node.expr(0) + node.expr(1), node.dtype())


@microsoft("FastGelu")
def convert_fast_gelu(node: SchemaNode) -> Any:
    """Return the approximate gelu, of a sum where there is a bias."""
    x = node.expr(0)
    bias = node.maybe("bias")
    return gelu_by_tanh(x if bias is None else x + bias.expr, node.dtype())


@microsoft("QuickGelu")
def convert_quick_gelu(node: SchemaNode) -> Any:
    """Return x * sigmoid(alpha * x)."""
    x, alpha = node.expr(), node.attribute("alpha")
    return x * relay.sigmoid(x if alpha == 1.0 else x * scalar(alpha, node.dtype()))


@microsoft("ScaledSiLU")
def convert_scaled_silu(node: SchemaNode) -> Any:
    """Return z * sigmoid(z) of z = scale * x."""
    dtype, scale = node.dtype(), node.maybe("scale")
    alpha = node.attribute("alpha")
    factor = scalar(alpha, dtype) if scale is None else cast(scale.expr, scale.dtype, dtype)
    z = node.expr() * factor
    return z * relay.sigmoid(z)
