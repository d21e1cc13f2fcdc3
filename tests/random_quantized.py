"""Seeded random quantized networks: layers of every kind that has a kernel of integers, and others.

Each network is a chain with branches, of small tensors, quantized by ONNX Runtime's tool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.quantized_models import Layers

CHANNELS = (1, 3, 5, 6, 8, 10, 12, 16, 24, 32)
EXTENTS = (5, 8, 9, 13)
FEWEST_LAYERS, MOST_LAYERS = 2, 5
ACTIVATIONS = (
    *("Relu", "relu6", "silu", "hard-swish", "gelu", "prelu"),
    *("Sigmoid", "Tanh", "LeakyRelu", "Elu", "Softplus", "HardSigmoid"),
)
# Products of activations are of so many places at most.
MOST_PLACES = 81
# Smaller images are not halved any more.
SMALLEST = 4


@dataclass
class Drawn:
    """A tensor of the network: its name, channels, and extents behind them."""

    name: str
    channels: int
    extents: tuple[int, ...]


class Network:
    """Draws a network of one seed.

    Parameters
    ----------
    seed
        The same one draws the same network.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        channels, extent = self.choose(CHANNELS), self.choose(EXTENTS)
        is_sequence = self.rng.random() < 1 / 8
        extents = (int(extent),) if is_sequence else (int(extent), int(self.choose(EXTENTS)))
        self.layers = Layers(1, int(channels), *extents)
        self.at = Drawn("x", int(channels), extents)
        for _ in range(int(self.rng.integers(FEWEST_LAYERS, MOST_LAYERS + 1))):
            kinds = SEQUENCE_KINDS if is_sequence else KINDS
            kinds[int(self.rng.integers(len(kinds)))](self)
            if self.rng.random() < 3 / 4:
                self.activate()
        # The tool quantizes what a layer reads and gives.
        if self.rng.random() < 1 / 3:
            self.matrix(int(self.choose(CHANNELS)))
        else:
            self.conv(int(self.choose(CHANNELS)), 1)
        self.how: dict[str, Any] = {
            "activations": str(self.choose(("QUInt8", "QInt8"))),
            "per_channel": bool(self.rng.random() < 1 / 2),
            "symmetric": bool(self.rng.random() < 1 / 4),
        }

    def choose(self, options: tuple[Any, ...]) -> Any:
        """Return one of the options."""
        return options[int(self.rng.integers(len(options)))]

    def quantized(self, folder: Path) -> Any:
        """Return the network with quantizations."""
        return self.layers.quantized(self.at.name, folder, **self.how)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node."""
        return self.layers.add(op, *inputs, **attributes)

    def number(self, value: float) -> str:
        """Add a constant."""
        return self.layers.constant(np.array(value, "float32"))

    def conv(
        self, outputs: int, kernel: int, groups: int = 1, stride: int = 1, dilation: int = 1
    ) -> None:
        """Add a convolution that keeps the extents but for its stride."""
        at, rank = self.at, len(self.at.extents)
        weights = self.layers.weights(outputs, at.channels // groups, *[kernel] * rank)
        operands = [at.name, weights]
        if self.rng.random() < 3 / 4:
            operands.append(self.layers.weights(outputs))
        pad = dilation * (kernel // 2)
        steps = {"strides": [stride] * rank, "dilations": [dilation] * rank}
        name = self.add("Conv", *operands, pads=[pad] * (2 * rank), group=groups, **steps)
        reach = 2 * pad - dilation * (kernel - 1) - 1
        extents = tuple((extent + reach) // stride + 1 for extent in at.extents)
        self.at = Drawn(name, outputs, extents)

    def matrix(self, outputs: int) -> None:
        """Add a product of matrices: of pixels by their channels, or of all that there is."""
        at = self.at
        if self.rng.random() < 1 / 2:
            rank = len(at.extents)
            last = self.add("Transpose", at.name, perm=[0, *range(2, rank + 2), 1])
            name = self.add("MatMul", last, self.layers.weights(at.channels, outputs))
            name = self.add("Transpose", name, perm=[0, rank + 1, *range(1, rank + 1)])
            self.at = Drawn(name, outputs, at.extents)
            return
        length = at.channels * math.prod(at.extents)
        flat = self.add("Flatten", at.name)
        weights = self.layers.weights(outputs, length)
        name = self.add("Gemm", flat, weights, self.layers.weights(outputs), transB=1)
        shape = self.layers.constant(np.array([0, outputs] + [1] * len(at.extents)))
        self.at = Drawn(self.add("Reshape", name, shape), outputs, (1,) * len(at.extents))

    def activate(self) -> None:
        """Put an activation behind the last layer."""
        name = self.at.name
        kind = self.choose(ACTIVATIONS)
        if kind == "relu6":
            made = self.add("Clip", name, self.number(0.0), self.number(6.0))
        elif kind == "silu":
            made = self.add("Mul", name, self.add("Sigmoid", name))
        elif kind == "gelu":
            inner = self.add("Erf", self.add("Mul", name, self.number(0.5**0.5)))
            half = self.add("Mul", name, self.number(0.5))
            made = self.add("Mul", half, self.add("Add", inner, self.number(1.0)))
        elif kind == "prelu":
            slopes = self.layers.weights(self.at.channels, *[1] * len(self.at.extents))
            made = self.add("PRelu", name, slopes)
        elif kind == "hard-swish":
            gate = self.add("HardSigmoid", name, alpha=1 / 6, beta=0.5)
            made = self.add("Mul", name, gate)
        else:
            made = self.add(kind, name)
        self.at.name = made


def _stride(net: Network) -> int:
    return int(net.choose((1, 2))) if min(net.at.extents) >= SMALLEST else 1


def _pointwise(net: Network) -> None:
    net.conv(int(net.choose(CHANNELS)), 1)


def _window(net: Network) -> None:
    net.conv(int(net.choose(CHANNELS)), 3, stride=_stride(net))


def _depthwise(net: Network) -> None:
    net.conv(net.at.channels, int(net.choose((3, 5))), net.at.channels, _stride(net))


def _grouped(net: Network) -> None:
    groups = int(net.choose(tuple(n for n in (2, 3, 4) if net.at.channels % n == 0) or (1,)))
    net.conv(groups * int(net.choose((2, 4, 8))), 3, groups)


def _residual(net: Network) -> None:
    before = Drawn(net.at.name, net.at.channels, net.at.extents)
    net.conv(before.channels, int(net.choose((1, 3))))
    if net.rng.random() < 1 / 2:
        net.activate()
    net.at.name = net.add("Add", net.at.name, before.name)


def _branches(net: Network) -> None:
    before = Drawn(net.at.name, net.at.channels, net.at.extents)
    net.conv(int(net.choose(CHANNELS)), 1)
    left = Drawn(net.at.name, net.at.channels, net.at.extents)
    net.at = before
    net.conv(int(net.choose(CHANNELS)), 3)
    joined = net.add("Concat", left.name, net.at.name, axis=1)
    net.at = Drawn(joined, left.channels + net.at.channels, left.extents)


def _pool(net: Network) -> None:
    if min(net.at.extents) < SMALLEST:
        return
    op = str(net.choose(("MaxPool", "AveragePool")))
    size = int(net.choose((2, 3)))
    name = net.add(op, net.at.name, kernel_shape=[size, size], strides=[2, 2])
    extents = tuple((extent - size) // 2 + 1 for extent in net.at.extents)
    net.at = Drawn(name, net.at.channels, extents)


def _gate(net: Network) -> None:
    before = Drawn(net.at.name, net.at.channels, net.at.extents)
    net.at = Drawn(net.add("GlobalAveragePool", before.name), before.channels, (1, 1))
    net.conv(8, 1)
    net.at.name = net.add("Relu", net.at.name)
    net.conv(before.channels, 1)
    gate = net.add("Sigmoid", net.at.name)
    net.at = Drawn(net.add("Mul", before.name, gate), before.channels, before.extents)


def _enlarged(net: Network) -> None:
    scales = net.layers.constant(np.array([1, 1, 2, 2], "float32"))
    name = net.add("Resize", net.at.name, "", scales, mode="nearest", nearest_mode="floor")
    net.at = Drawn(name, net.at.channels, tuple(2 * extent for extent in net.at.extents))


def _dilated(net: Network) -> None:
    groups = net.at.channels if net.rng.random() < 1 / 2 else 1
    outputs = net.at.channels if groups > 1 else int(net.choose(CHANNELS))
    net.conv(outputs, 3, groups, dilation=2)


def _padded(net: Network) -> None:
    rank = len(net.at.extents)
    widths = net.rng.integers(0, 3, (2, rank))
    begin, end = ([0, 0, *map(int, row)] for row in widths)
    pads = net.layers.constant(np.array(begin + end))
    value = net.number(float(net.rng.normal()))
    extents = zip(net.at.extents, widths.sum(axis=0), strict=True)
    extents = tuple(extent + int(width) for extent, width in extents)
    net.at = Drawn(net.add("Pad", net.at.name, pads, value), net.at.channels, extents)


def _shuffled(net: Network) -> None:
    """Cut the channels apart, compute on one part, and join them the other way round."""
    at = net.at
    if at.channels < 2:
        return
    first = int(net.rng.integers(1, at.channels))
    bounds = [net.layers.constant(np.array([each])) for each in (0, first, at.channels, 1)]
    left = net.add("Slice", at.name, bounds[0], bounds[1], bounds[3])
    right = net.add("Slice", at.name, bounds[1], bounds[2], bounds[3])
    net.at = Drawn(left, first, at.extents)
    net.conv(first, 3)
    joined = net.add("Concat", right, net.at.name, axis=1)
    net.at = Drawn(joined, at.channels, at.extents)


def _averaged(net: Network) -> None:
    """Take a mean of all pixels away."""
    axes = list(range(2, 2 + len(net.at.extents)))
    mean = net.add("ReduceMean", net.at.name, net.layers.constant(np.array(axes)), keepdims=1)
    net.at.name = net.add("Sub", net.at.name, mean)


def _scaled(net: Network) -> None:
    """Multiply and shift each channel, as a norm that was not folded."""
    ones = [1] * len(net.at.extents)
    made = net.add("Mul", net.at.name, net.layers.weights(net.at.channels, *ones))
    net.at.name = net.add("Add", made, net.layers.weights(net.at.channels, *ones))


def _products(net: Network) -> None:
    """Weigh places by how alike they are: two products of activations."""
    at, rank = net.at, len(net.at.extents)
    places = math.prod(at.extents)
    if places > MOST_PLACES:
        return
    rows = net.add("Reshape", at.name, net.layers.constant(np.array([0, at.channels, places])))
    scores = net.add("MatMul", net.add("Transpose", rows, perm=[0, 2, 1]), rows)
    weights = net.add("Softmax", net.add("Mul", scores, net.number(at.channels**-0.5)), axis=1)
    shape = net.layers.constant(np.array([0, at.channels, *at.extents]))
    net.at = Drawn(
        net.add("Reshape", net.add("MatMul", rows, weights), shape), at.channels, at.extents[:rank]
    )


def _matrix(net: Network) -> None:
    net.matrix(int(net.choose(CHANNELS)))


KINDS: tuple[Callable[[Network], None], ...] = (
    *(_pointwise, _window, _depthwise, _depthwise, _grouped, _dilated, _padded),
    *(_residual, _branches, _pool, _gate, _enlarged, _shuffled, _averaged, _scaled, _matrix),
    _products,
)
SEQUENCE_KINDS: tuple[Callable[[Network], None], ...] = (
    *(_pointwise, _window, _depthwise, _grouped, _residual, _branches, _dilated, _padded),
    *(_shuffled, _averaged, _scaled, _matrix, _products),
)

# What a run may differ by from the model's meaning, in steps of its last scale, and how many may.
MOST_STEPS, MOST_SHARE = 1.01, 0.01


def difference(found: np.ndarray, expected: np.ndarray, step: float) -> tuple[float, float]:
    """Return the largest difference in steps, and the share of elements that differ."""
    steps = np.abs(found.astype("float64") - expected) / step
    return float(steps.max()), float((steps > 0.5).mean())
