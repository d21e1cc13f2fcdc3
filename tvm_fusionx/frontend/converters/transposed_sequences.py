"""Transposed convolutions of sequences, written as ordinary ones whose channels are interleaved.

With stride s, result q * s + r takes every s-th weight, from r on, of the elements q, q - 1, ...:
for each r an ordinary convolution, all of them over the same elements. So they are one, of s times
as many channels, whose results stand side by side. Nothing is multiplied that was not before, but
zeros where s does not divide the window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.values import constant


@dataclass(frozen=True)
class Spread:
    """How elements are spread over windows."""

    stride: int
    cut: int
    """Elements that are cut off in front."""
    length: int
    """Of the result."""
    groups: int


def spread_sequence(
    x: Any, shape: tuple[int, ...], weights: np.ndarray[Any, Any], spread: Spread
) -> Any:
    """Return the transposed convolution of a sequence.

    Parameters
    ----------
    x, shape
        ``(batch, channels, length)``.
    weights
        ``(channels, outputs / groups, window)``, those of a dilated one with zeros between.
    spread
        Stride, pads and groups.

    Returns
    -------
    relay.Expr
        ``(batch, outputs, spread.length)``.
    """
    batch, channels, length = shape
    outputs, window = weights.shape[1:]
    stride, groups = spread.stride, spread.groups
    taps = math.ceil(window / stride)
    whole = np.pad(weights, [(0, 0), (0, 0), (0, taps * stride - window)])
    parts = whole.reshape(groups, channels // groups, outputs, taps, stride)
    # Of each group: outputs, places in a stride, channels, and taps, the latest element's last.
    ordered = parts.transpose(0, 2, 4, 1, 3)[..., ::-1]
    all_outputs = groups * outputs
    kernel = np.ascontiguousarray(
        ordered.reshape(all_outputs * stride, channels // groups, 1, taps)
    )
    made = relay.nn.conv2d(
        reshape(x, (batch, channels, 1, length)),
        constant(kernel),
        padding=[0, taps - 1, 0, taps - 1],
        groups=groups,
        channels=all_outputs * stride,
        kernel_size=(1, taps),
    )
    places = length + taps - 1
    if stride > 1:
        made = reshape(made, (batch, all_outputs, stride, places))
        made = relay.transpose(made, (0, 1, 3, 2))
    full = places * stride
    made = reshape(made, (batch, all_outputs, full))
    missing = spread.cut + spread.length - full
    if missing > 0:
        # An output padding behind all windows.
        made = relay.nn.pad(made, [(0, 0), (0, 0), (0, missing)])
    if spread.cut or spread.length < full:
        made = relay.strided_slice(made, [spread.cut], [spread.cut + spread.length], axes=[2])
    return made
