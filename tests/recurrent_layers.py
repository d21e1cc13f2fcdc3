"""Random recurrent layers: their operands, what numpy makes of them, and their blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relay, te

from tvm_fusionx.ecg.fold import fold_constants
from tvm_fusionx.ecg.from_relay import from_relay
from tvm_fusionx.operators.recurrent_layer import (
    GRU,
    LSTM,
    PANEL,
    RNN,
    Function,
    Layer,
)
from tvm_fusionx.operators.recurrent_operator import expression, recurrent
from tvm_fusionx.tir.indices import simplify_indices

Array = np.ndarray[Any, Any]

SIGMOID, TANH = Function("Sigmoid"), Function("Tanh")
USUAL = {LSTM: (SIGMOID, TANH, TANH), GRU: (SIGMOID, TANH), RNN: (TANH,)}
OTHERS = (
    Function("Relu"),
    Function("Affine", 0.5, 0.1),
    Function("HardSigmoid", 0.3, 0.4),
    Function("ScaledTanh", 0.7, 0.9),
)
DIRECTIONS = ((False,), (True,), (False, True))

FUNCTIONS = {
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "Affine": lambda x, a, b: a * x + b,
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
}


def drawn(seed: int, kind: str | None = None) -> Layer:
    """Return a random small layer."""
    draw = np.random.default_rng(seed)
    kind = kind or str(draw.choice([LSTM, GRU, RNN]))
    functions = USUAL[kind]
    if draw.random() < 0.3:
        functions = tuple(OTHERS[at] for at in draw.integers(0, len(OTHERS), len(functions)))
    return Layer(
        kind,
        steps=int(draw.integers(2, 7)),
        batch=int(draw.integers(1, 8)),
        hidden=int(draw.choice([1, 3, 5, 8, 16, 20, 24, 33, 48, 64])),
        reverse=DIRECTIONS[draw.integers(0, 3)],
        functions=functions,
        clip=float(draw.uniform(0.3, 2.0)) if draw.random() < 0.3 else None,
        is_linear_first=bool(draw.random() < 0.5),
        is_coupled=bool(draw.random() < 0.3),
        has_lengths=bool(draw.random() < 0.5),
    )


@dataclass(frozen=True)
class Numbers:
    """Operands of a layer, by the definition of the layer and not of the kernel."""

    shares: Array
    """``(steps, batch, directions, gates, hidden)``."""
    weights: Array
    """``(directions, gates, hidden, hidden)``: of a unit, to a unit before."""
    bias: Array
    """``(directions, hidden)``."""
    h: Array
    c: Array
    lengths: Array

    @staticmethod
    def drawn(layer: Layer, seed: int = 0) -> Numbers:
        """Return random ones; sequences that run through where a layer has no lengths."""
        draw = np.random.default_rng(seed)
        directions, gates, hidden = layer.directions, layer.gates, layer.hidden

        def floats(*shape: int) -> Array:
            return draw.standard_normal(shape).astype("float32")

        state = (directions, layer.batch, hidden)
        lengths = draw.integers(0, layer.steps + 1, layer.batch).astype("int32")
        return Numbers(
            floats(layer.steps, layer.batch, directions, gates, hidden),
            floats(directions, gates, hidden, hidden) / np.sqrt(hidden).astype("float32"),
            floats(directions, hidden),
            floats(*state),
            floats(*state),
            lengths if layer.has_lengths else np.full_like(lengths, layer.steps),
        )

    def operands(self, layer: Layer) -> list[Array]:
        """Return them as the operator takes them."""
        missing = layer.padded - layer.hidden
        shares = np.pad(self.shares, [(0, 0)] * 4 + [(0, missing)])
        weights = np.pad(self.weights, [(0, 0), (0, 0), (0, missing), (0, 0)])
        panels = weights.reshape(
            layer.directions, layer.gates, layer.panels, PANEL, layer.hidden
        ).transpose(0, 2, 4, 1, 3)
        parts = [panels[:, :, :, list(phase)] for phase in layer.phases]
        packed = np.concatenate([part.reshape(layer.directions, -1) for part in parts], 1)
        return [
            shares.reshape(layer.steps * layer.batch, -1),
            np.ascontiguousarray(packed),
            np.pad(self.bias, [(0, 0), (0, missing)]),
            self.h,
            self.c,
            self.lengths,
        ]


def expected(layer: Layer, numbers: Numbers) -> list[Array]:
    """Return a layer's results, by numpy in float64."""
    every = np.zeros((layer.steps, layer.batch, layer.directions, layer.hidden))
    h, c = numbers.h.astype("float64"), numbers.c.astype("float64")

    def apply(which: int, x: Array) -> Array:
        if layer.clip is not None and which != 2:
            x = np.clip(x, -layer.clip, layer.clip)
        function = layer.functions[which]
        return FUNCTIONS[function.name](x, function.alpha, function.beta)

    for direction, is_reverse in enumerate(layer.reverse):
        weights = numbers.weights[direction]
        order = range(layer.steps)
        for time in reversed(order) if is_reverse else order:
            state, share = h[direction], numbers.shares[time, :, direction]
            sums = [share[:, gate] + state @ weights[gate].T for gate in range(layer.gates)]
            cell = c[direction]
            if layer.kind == RNN:
                new = apply(0, sums[0])
            elif layer.kind == GRU:
                z, r = apply(0, sums[0]), apply(0, sums[1])
                if layer.is_linear_first:
                    added = r * (state @ weights[2].T + numbers.bias[direction])
                else:
                    added = (r * state) @ weights[2].T
                new = (1 - z) * apply(1, share[:, 2] + added) + z * state
            else:
                i = apply(0, sums[0])
                forget = 1 - i if layer.is_coupled else apply(0, sums[2])
                cell = forget * cell + i * apply(1, sums[3])
                new = apply(0, sums[1]) * apply(2, cell)
            runs = (time < numbers.lengths)[:, None]
            every[time, :, direction] = np.where(runs, new, 0)
            h[direction] = np.where(runs, new, state)
            c[direction] = np.where(runs, cell, c[direction])
    found = [every, h, *([c] if layer.has_cell else [])]
    return [each.astype("float32") for each in found]


def unscheduled(layer: Layer, numbers: Numbers, given: Sequence[int] = (0, 1, 2)) -> Any:
    """Return the block of a layer, which gives some of its results, as unscheduled TensorIR."""
    operands = numbers.operands(layer)
    inputs = [
        te.placeholder(each.shape, str(each.dtype), f"p{at}") for at, each in enumerate(operands)
    ]
    made = expression(layer, inputs)
    return simplify_indices(
        te.create_prim_func([*inputs, *(made[at] for at in given if at < len(made))])
    )


def layer_call(kind: str, batch: int = 2, hidden: int = 20) -> relay.Expr:
    """Return a call of a small layer, all of its operands variables."""
    layer = Layer(kind, 3, batch, hidden, (False, True), USUAL[kind])
    operands = [
        relay.var(f"x{at}", shape=each.shape, dtype=str(each.dtype))
        for at, each in enumerate(Numbers.drawn(layer).operands(layer))
    ]
    return relay.Tuple(recurrent(layer, operands))


def folded(body: relay.Expr) -> list[Array]:
    """Return the results of a tuple of constants, computed as the graph folds constants."""
    graph = from_relay(relay.transform.InferType()(tvm.IRModule.from_expr(body))["main"])
    while fold_constants(graph):
        pass
    return [value.array for value in graph.outputs]


def call_of(layer: Layer, numbers: Numbers) -> relay.Expr:
    """Return a layer's results as a tuple: its input's share is ``x``, all else constant."""
    shares, *others = numbers.operands(layer)
    constants = [relay.const(each, str(each.dtype)) for each in others]
    return relay.Tuple(recurrent(layer, [relay.var("x", shape=shares.shape), *constants]))
