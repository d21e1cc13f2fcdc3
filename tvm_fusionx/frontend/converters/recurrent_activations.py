"""The functions of recurrent layers, from ONNX's attributes; and of Relay expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.node import ASK_SUPPORT, Node
from tvm_fusionx.operators import recurrent_layer
from tvm_fusionx.operators.recurrent_layer import OF_CELL, RELAY_FUNCTIONS

Function = Callable[[Any], Any]


# The numbers that ONNX gives where a model has none; None where a function takes no such number.
DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (1.0, 0.0),
    "Relu": (None, None),
    "Sigmoid": (None, None),
    "Tanh": (None, None),
    "HardSigmoid": (0.2, 0.5),
    "ScaledTanh": (1.0, 1.0),
}


def activations_of(
    node: Node, defaults: tuple[str, ...], directions: int
) -> list[recurrent_layer.Function]:
    """Return the functions of all directions, with their numbers."""
    names = [str(name) for name in node.attribute("activations", defaults * directions)]
    if len(names) != len(defaults) * directions:
        expected = f"{len(defaults) * directions} activations"
        raise node.refuse(expected, str(names), ASK_SUPPORT)
    alphas, betas = (
        iter(float(number) for number in node.attribute(f"activation_{name}", ()))
        for name in ("alpha", "beta")
    )
    return [_activation(node, name, alphas, betas) for name in names]


def _activation(
    node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]
) -> recurrent_layer.Function:
    if name not in DEFAULTS:
        raise node.refuse(f"activations among {', '.join(DEFAULTS)}", name, ASK_SUPPORT)
    alpha, beta = DEFAULTS[name]
    a = 0.0 if alpha is None else next(alphas, alpha)
    b = 0.0 if beta is None else next(betas, beta)
    return recurrent_layer.Function(name, a, b)


def as_relay(node: Node, activations: list[recurrent_layer.Function], each: int) -> list[Function]:
    """Return activations, `each` of a direction, as functions of Relay expressions."""
    dtype, limit = node.dtype(), node.attribute("clip")

    def made(activation: recurrent_layer.Function) -> Function:
        apply = RELAY_FUNCTIONS[activation.name]
        a, b = scalar(activation.alpha, dtype), scalar(activation.beta, dtype)
        return lambda x: apply(x, a, b)

    functions = [made(activation) for activation in activations]
    if limit is None:
        return functions
    # ONNX Runtime clips what enters the gates, and not the cell that LSTM's third function takes.
    return [
        function if index % each == OF_CELL else _clipped(function, float(limit))
        for index, function in enumerate(functions)
    ]


def _clipped(function: Function, limit: float) -> Function:
    """Return a function whose argument is held within [-limit, limit]."""
    return lambda x: function(relay.clip(x, -limit, limit))
