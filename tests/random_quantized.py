"""Seeded random quantized networks: layers of every kind that has a kernel of integers, and others.

Each network is a chain with branches, of small tensors, quantized by ONNX Runtime's tool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.quantized_models import Layers

CHANNELS = (3, 6, 8, 12, 16, 24, 32)
EXTENTS = (5, 8, 9, 13)
FEWEST_LAYERS, MOST_LAYERS = 2, 5
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

    def conv(self, outputs: int, kernel: int, groups: int = 1, stride: int = 1) -> None:
        """Add a convolution that keeps the extents but for its stride."""
        at, rank = self.at, len(self.at.extents)
        weights = self.layers.weights(outputs, at.channels // groups, *[kernel] * rank)
        operands = [at.name, weights]
        if self.rng.random() < 3 / 4:
            operands.append(self.layers.weights(outputs))
        pads = [kernel // 2] * (2 * rank)
        name = self.add("Conv", *operands, pads=pads, group=groups, strides=[stride] * rank)
        reach = 2 * (kernel // 2) - kernel
        extents = tuple((extent + reach) // stride + 1 for extent in at.extents)
        self.at = Drawn(name, outputs, extents)

    def activate(self) -> None:
        """Put an activation behind the last layer."""
        name = self.at.name
        kind = self.choose(("relu", "relu6", "silu", "hard-swish", "sigmoid", "tanh", "leaky"))
        if kind == "relu6":
            made = self.add("Clip", name, self.number(0.0), self.number(6.0))
        elif kind == "silu":
            made = self.add("Mul", name, self.add("Sigmoid", name))
        elif kind == "hard-swish":
            gate = self.add("HardSigmoid", name, alpha=1 / 6, beta=0.5)
            made = self.add("Mul", name, gate)
        else:
            ops = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "leaky": "LeakyRelu"}
            made = self.add(ops[kind], name)
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
    name = net.add(op, net.at.name, kernel_shape=[2, 2], strides=[2, 2])
    net.at = Drawn(name, net.at.channels, tuple(extent // 2 for extent in net.at.extents))


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


KINDS: tuple[Callable[[Network], None], ...] = (
    *(_pointwise, _window, _depthwise, _depthwise, _grouped),
    *(_residual, _branches, _pool, _gate, _enlarged),
)
SEQUENCE_KINDS: tuple[Callable[[Network], None], ...] = (
    *(_pointwise, _window, _depthwise, _grouped, _residual, _branches),
)

# What a run may differ by from the model's meaning, in steps of its last scale, and how many may.
MOST_STEPS, MOST_SHARE = 1.01, 0.01


def difference(found: np.ndarray, expected: np.ndarray, step: float) -> tuple[float, float]:
    """Return the largest difference in steps, and the share of elements that differ."""
    steps = np.abs(found.astype("float64") - expected) / step
    return float(steps.max()), float((steps > 0.5).mean())
