"""Recurrent layers as one operator: its operands from those of ONNX.

The input's share of all gates waits for no state: it is one product of all steps and directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor, constant
from tvm_fusionx.operators.recurrent_layer import PANEL, Function, Layer
from tvm_fusionx.operators.recurrent_operator import recurrent

FLOAT = "float32"


@dataclass(frozen=True)
class Given:
    """What ONNX gives to a layer, the steps of the data first; None where there is nothing."""

    x: Any
    """``(steps, batch, features)``."""
    w: Tensor
    """``(directions, gates * hidden, features)``."""
    r: Tensor
    """``(directions, gates * hidden, hidden)``."""
    biases: Tensor | None
    """``(directions, 2 * gates * hidden)``."""
    h: Any | None
    """``(directions, batch, hidden)``."""
    c: Any | None
    lengths: Any | None
    """``(batch,)``."""


def why_not_one_kernel(
    node: Node, steps: int, functions: Sequence[Function], each: int, has_peepholes: bool
) -> str | None:
    """Say why a layer is unrolled over its steps, or None where it becomes one kernel.

    Parameters
    ----------
    functions, each
        Of all directions, and how many a direction has.
    """
    if node.dtype() != FLOAT:
        return f"its data is {node.dtype()}: the kernel computes {FLOAT}"
    if steps == 1:
        return "it has one step: nothing is repeated"
    if has_peepholes:
        return "its gates see the cell (peepholes)"
    if any(function != functions[at % each] for at, function in enumerate(functions)):
        return "its directions have different functions"
    return None


def in_one_kernel(layer: Layer, given: Given) -> tuple[Any, ...]:
    """Return a layer's results: ``(steps, batch, directions, hidden)``, and the last states."""
    one = constant(np.zeros((1,), FLOAT))
    state = np.zeros((layer.directions, layer.batch, layer.hidden), FLOAT)
    h = constant(state) if given.h is None else given.h
    c = constant(state) if given.c is None else given.c
    lengths = given.lengths
    if lengths is None:
        lengths = constant(np.full((layer.batch,), layer.steps, "int32"))
    shares, bias = _shares(layer, given)
    weights = _expr(_in_panels(layer, _value(given.r)))
    return recurrent(layer, [shares, weights, bias, h, c if layer.has_cell else one, lengths])


def _shares(layer: Layer, given: Given) -> tuple[Any, Any]:
    """Return the input's products with all biases, and the bias that waits for the reset."""
    features = given.w.shape[2]
    rows = (layer.directions * layer.gates * layer.padded, features)
    weight = _reshape(_by_gate(layer, _value(given.w), (features,)), rows)
    data = relay.reshape(given.x, (layer.steps * layer.batch, features))
    products = relay.nn.dense(data, _expr(weight))
    late = constant(np.zeros((layer.directions, layer.padded), FLOAT))
    if given.biases is None:
        return products, late
    half = layer.gates * layer.hidden
    value = _value(given.biases)
    of_input, of_state = (
        _by_gate(layer, _cut(value, 1, begin, begin + half), ()) for begin in (0, half)
    )
    if not layer.adds_after_reset:
        total = of_input + of_state
    else:
        last = layer.gates - 1
        early = _cut(of_state, 1, 0, last)
        nothing = [(0, 0), (0, 1), (0, 0)]
        total = of_input + _pad(early, nothing)
        shape = (layer.directions, layer.padded)
        late = _expr(_reshape(_cut(of_state, 1, last, layer.gates), shape))
    return relay.nn.bias_add(products, _expr(_reshape(total, rows[:1]))), late


def _by_gate(layer: Layer, value: Any, last: tuple[int, ...]) -> Any:
    """Return rows gate by gate, ``(directions, gates, padded, *last)``: zeros fill up panels."""
    shape = (layer.directions, layer.gates, layer.hidden, *last)
    widths = [(0, 0), (0, 0), (0, layer.padded - layer.hidden), *[(0, 0)] * len(last)]
    return _pad(_reshape(value, shape), widths)


def _in_panels(layer: Layer, value: Any) -> Any:
    """Return the state's weights as the operator has them: phase by phase, in panels of units."""
    directions, panels, hidden = layer.directions, layer.panels, layer.hidden
    gates = _by_gate(layer, value, (hidden,))
    parts = []
    for phase in layer.phases:
        taken = _cut(gates, 1, phase[0], phase[-1] + 1)
        split = _reshape(taken, (directions, len(phase), panels, PANEL, hidden))
        turned = _transpose(split, (0, 2, 4, 1, 3))
        parts.append(_reshape(turned, (directions, len(phase) * layer.padded * hidden)))
    return parts[0] if len(parts) == 1 else _join(parts)


# What is known now is moved now, however large it is; what is not, by Relay.


def _value(tensor: Tensor) -> Any:
    return tensor.expr if tensor.array is None else tensor.array


def _expr(value: Any) -> Any:
    return constant(value) if isinstance(value, np.ndarray) else value


def _reshape(value: Any, shape: tuple[int, ...]) -> Any:
    return value.reshape(shape) if isinstance(value, np.ndarray) else relay.reshape(value, shape)


def _transpose(value: Any, axes: tuple[int, ...]) -> Any:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.transpose(axes))
    return relay.transpose(value, axes)


def _pad(value: Any, widths: list[tuple[int, int]]) -> Any:
    if not any(map(any, widths)):
        return value
    return np.pad(value, widths) if isinstance(value, np.ndarray) else relay.nn.pad(value, widths)


def _cut(value: Any, axis: int, begin: int, end: int) -> Any:
    if isinstance(value, np.ndarray):
        return value[(slice(None),) * axis + (slice(begin, end),)]
    return relay.strided_slice(value, [begin], [end], axes=[axis])


def _join(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=1)
    return relay.concatenate(parts, axis=1)
