"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import NUMPY_BROADCAST_SINCE, scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.node import Node

# Before this opset softmax flattens its input to two dimensions at `axis`.
SOFTMAX_ALONG_AXIS_SINCE = 13
# s * s is at most 1/9, so term k is below 9 ** -k: enough of them to reach the type's last digit.
ARTANH_TERMS = {"float16": 3, "float32": 7, "float64": 16}
# Above this tanh(softplus(x)) is 1 to the type's last digit, and exp(x) ** 2 does not overflow yet.
TANH_OF_SOFTPLUS_ONE = {"float16": 5, "float32": 20, "float64": 20}


@converter("Relu", through=14)
def convert_relu(node: Node) -> Any:
    """max(x, 0)."""
    return relay.nn.relu(node.expr())


@converter("LeakyRelu", through=16)
def convert_leaky_relu(node: Node) -> Any:
    """Return x where positive, alpha * x elsewhere."""
    return relay.nn.leaky_relu(node.expr(), float(node.attribute("alpha", 0.01)))


@converter("PRelu", through=16, because="TVM fails on a slope per channel of old opsets")
def convert_prelu(node: Node) -> Any:
    """Return x where not negative, slope * x elsewhere."""
    x, slope = node.expr(0), node.expr(1)
    is_per_channel = node.version < NUMPY_BROADCAST_SINCE and node.rank(1) == 1 and node.rank() > 1
    if is_per_channel and node.shape(1)[0] == node.shape()[1]:
        slope = relay.reshape(slope, (node.shape(1)[0], *(1,) * (node.rank() - 2)))
    return relay.where(relay.less(x, scalar(0, node.dtype())), x * slope, x)


@converter("Elu", through=22)
def convert_elu(node: Node) -> Any:
    """Return x where not negative, alpha * (exp(x) - 1) elsewhere."""
    x, dtype = node.expr(), node.dtype()
    alpha = scalar(node.attribute("alpha", 1.0), dtype)
    below = alpha * (relay.exp(x) - scalar(1, dtype))
    return relay.where(relay.less(x, scalar(0, dtype)), below, x)


@converter("Selu", through=22)
def convert_selu(node: Node) -> Any:
    """Return gamma * x where positive, gamma * alpha * (exp(x) - 1) elsewhere."""
    x, dtype = node.expr(), node.dtype()
    alpha = scalar(node.attribute("alpha", 1.67326319217681884765625), dtype)
    gamma = scalar(node.attribute("gamma", 1.05070102214813232421875), dtype)
    below = alpha * relay.exp(x) - alpha
    return gamma * relay.where(relay.greater(x, scalar(0, dtype)), x, below)


@converter("Celu", through=28)
def convert_celu(node: Node) -> Any:
    """Return x where not negative, alpha * (exp(x / alpha) - 1) elsewhere."""
    x, dtype = node.expr(), node.dtype()
    alpha = scalar(node.attribute("alpha", 1.0), dtype)
    below = alpha * (relay.exp(x / alpha) - scalar(1, dtype))
    return relay.where(relay.less(x, scalar(0, dtype)), below, x)


@converter("ThresholdedRelu", through=22)
def convert_thresholded_relu(node: Node) -> Any:
    """Return x above alpha, zero elsewhere."""
    x, dtype = node.expr(), node.dtype()
    alpha = scalar(node.attribute("alpha", 1.0), dtype)
    return relay.where(relay.greater(x, alpha), x, scalar(0, dtype))


@converter("HardSigmoid", through=22)
def convert_hard_sigmoid(node: Node) -> Any:
    """Return alpha * x + beta, clipped to [0, 1]."""
    x, dtype = node.expr(), node.dtype()
    alpha = scalar(node.attribute("alpha", 0.2), dtype)
    beta = scalar(node.attribute("beta", 0.5), dtype)
    return relay.clip(x * alpha + beta, 0.0, 1.0)


@converter("HardSwish", through=22)
def convert_hard_swish(node: Node) -> Any:
    """Return x * clip(x / 6 + 1 / 2, 0, 1)."""
    x, dtype = node.expr(), node.dtype()
    return x * relay.clip(x * scalar(1 / 6, dtype) + scalar(0.5, dtype), 0.0, 1.0)


def swish(x: Any, alpha: float, dtype: str) -> Any:
    """Return x * sigmoid(alpha * x)."""
    return x * relay.sigmoid(x if alpha == 1.0 else x * scalar(alpha, dtype))


@converter("Swish", through=24)
def convert_swish(node: Node) -> Any:
    """Return x * sigmoid(alpha * x)."""
    return swish(node.expr(), float(node.attribute("alpha", 1.0)), node.dtype())


@converter("SwiGLU", through=28)
def convert_swiglu(node: Node) -> Any:
    """Return the second input, gated by the swish of the first."""
    return swish(node.expr(), float(node.attribute("alpha", 1.0)), node.dtype()) * node.expr(1)


def softplus(x: Any, dtype: str) -> Any:
    """log(1 + exp(x)) that overflows for no x and keeps the digits of a small exp(x)."""
    return relay.maximum(x, scalar(0, dtype)) + log1p(
        relay.exp(relay.negative(relay.abs(x))), dtype
    )


def log1p(x: Any, dtype: str) -> Any:
    """log(1 + x) for x in [0, 1], to the last digits also near zero.

    log(1 + x) = 2 artanh(s) with s = x / (2 + x), by the power series of artanh. Forms that
    subtract the one again are undone by TVM, which simplifies (x + 1) - 1 to x.
    """
    s = x / (scalar(2, dtype) + x)
    square = s * s
    terms = ARTANH_TERMS.get(dtype, ARTANH_TERMS["float32"])
    series = scalar(1 / (2 * terms + 1), dtype)
    for k in reversed(range(terms)):
        series = series * square + scalar(1 / (2 * k + 1), dtype)
    return scalar(2, dtype) * s * series


@converter("Softplus", through=22, because="exp overflows for large inputs")
def convert_softplus(node: Node) -> Any:
    """log(1 + exp(x))."""
    return softplus(node.expr(), node.dtype())


@converter("Mish", through=22, because="exp overflows for large inputs")
def convert_mish(node: Node) -> Any:
    """Return x * tanh(softplus(x))."""
    return node.expr() * tanh_of_softplus(node.expr(), node.dtype())


@converter("Tanh", through=13)
def convert_tanh(node: Node) -> Any:
    """Return tanh(x); of a softplus, as exporters write Mish, without its logarithm."""
    softened = node.maker(0, "Softplus")
    if softened is not None:
        return tanh_of_softplus(softened.expr(), node.dtype())
    return relay.tanh(node.expr())


def tanh_of_softplus(x: Any, dtype: str) -> Any:
    """tanh(log(1 + e)) with e = exp(x), which is n / (n + 2) with n = e * (e + 2).

    One exponential and one division in place of three of each, and no digit is cancelled.
    """
    e = relay.exp(x)
    n = e * (e + scalar(2, dtype))
    is_one = relay.greater(x, scalar(TANH_OF_SOFTPLUS_ONE[dtype], dtype))
    return relay.where(is_one, scalar(1, dtype), n / (n + scalar(2, dtype)))


@converter("Softsign", through=22)
def convert_softsign(node: Node) -> Any:
    """Return x / (1 + abs(x))."""
    return node.expr() / (scalar(1, node.dtype()) + relay.abs(node.expr()))


@converter("Shrink", through=9)
def convert_shrink(node: Node) -> Any:
    """Return x moved toward zero by bias outside [-lambd, lambd], zero inside."""
    dtype = node.dtype()
    # Bias and threshold may be fractions, and their negatives are no unsigned numbers.
    work = dtype if is_floating(dtype) else "float64"
    x = cast(node.expr(), dtype, work)
    bias = scalar(node.attribute("bias", 0.0), work)
    threshold = node.attribute("lambd", 0.5)
    zero = scalar(0, work)
    below = relay.where(relay.less(x, scalar(-threshold, work)), x + bias, zero)
    moved = relay.where(relay.greater(x, scalar(threshold, work)), x - bias, below)
    return moved if work == dtype else relay.cast(relay.cast(moved, "int64"), dtype)


@converter("Gelu", through=20, because="TVM ignores approximate='tanh'")
def convert_gelu(node: Node) -> Any:
    """Return x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh."""
    x, dtype = node.expr(), node.dtype()
    one, half = scalar(1, dtype), scalar(0.5, dtype)
    if node.attribute("approximate", "none") == "tanh":
        # Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2.
        cubed = x * x * x * scalar(0.044715, dtype)
        inner = relay.tanh(scalar(math.sqrt(2 / math.pi), dtype) * (x + cubed))
    else:
        inner = relay.erf(x * scalar(math.sqrt(0.5), dtype))
    return half * x * (one + inner)


def flat_softmax_view(node: Node) -> tuple[Any, int]:
    """Return softmax's input and axis; of old opsets the input flattened at ``axis``."""
    if node.version >= SOFTMAX_ALONG_AXIS_SINCE:
        return node.expr(), node.axis(-1)
    axis, shape = node.axis(1), node.shape()
    if axis == len(shape) - 1:
        return node.expr(), axis
    rows = math.prod(shape[:axis])
    return relay.reshape(node.expr(), (rows, math.prod(shape[axis:]))), 1


def _like_input(node: Node, result: Any) -> Any:
    if node.version >= SOFTMAX_ALONG_AXIS_SINCE or node.axis(1) == node.rank() - 1:
        return result
    return relay.reshape(result, node.shape())


@converter("Softmax", through=13)
def convert_softmax(node: Node) -> Any:
    """exp(x) / sum(exp(x)) along an axis."""
    x, axis = flat_softmax_view(node)
    return _like_input(node, relay.nn.softmax(x, axis))


@converter("LogSoftmax", through=13)
def convert_log_softmax(node: Node) -> Any:
    """X - max - log(sum(exp(x - max))): Relay's ``log_softmax`` takes the last axis only."""
    x, axis = flat_softmax_view(node)
    shifted = x - relay.max(x, axis=axis, keepdims=True)
    total = relay.sum(relay.exp(shifted), axis=axis, keepdims=True)
    return _like_input(node, shifted - relay.log(total))


@converter("Hardmax", through=13)
def convert_hardmax(node: Node) -> Any:
    """One at the first largest element along an axis, zero elsewhere."""
    x, axis = flat_softmax_view(node)
    is_flat = node.version < SOFTMAX_ALONG_AXIS_SINCE and node.axis(1) != node.rank() - 1
    depth = math.prod(node.shape()[node.axis(1) :]) if is_flat else node.shape()[axis]
    dtype = node.dtype()
    best = relay.argmax(x, axis=axis)
    hot = relay.one_hot(best, scalar(1, dtype), scalar(0, dtype), depth, axis, dtype)
    return _like_input(node, hot)


@converter("Dropout", through=22, because="TVM fails on a seed and has no mask output")
def convert_dropout(node: Node) -> Any:
    """Inference keeps every element; drawing in training mode has no one right answer."""
    is_training = node.has(2) and bool(node.scalar(2))
    ratio = node.scalar(1) if is_training and node.has(1) else 0.5
    if is_training and ratio != 0.0:
        raise node.refuse(
            "inference", "training_mode=1, which draws random numbers", "Export in eval mode."
        )
    mask_dtype = "bool" if node.version >= 10 else node.dtype()
    mask = relay.ones(node.shape(), mask_dtype) if node.wants(1) else None
    return [node.tensor(0), mask]
