"""What a recurrent layer computes: its gates in their order, and what makes a state of their sums.

The formulas take TIR values, scalars or vectors, so that every kernel computes the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import tvm
from tvm import relay, tir

# Units whose weights lie together: a vector of AVX-512, two of AVX2, four of NEON.
PANEL = 16

LSTM, GRU, RNN = "LSTM", "GRU", "RNN"
# LSTM's gates are i, o, f, c; GRU's z, r, h; RNN has one.
GATES = {LSTM: 4, GRU: 3, RNN: 1}

# Functions of a layer, in ONNX's order: of gates, of the candidate, of the cell.
OF_GATES, OF_CANDIDATE, OF_CELL = 0, 1, 2

# Keeps a value that is read several times, and returns how it is read.
Keep = Callable[[Any], Any]


def _number(value: float, like: Any) -> Any:
    return tir.const(value, like.dtype)


def _affine(x: Any, alpha: float, beta: float) -> Any:
    return x * _number(alpha, x) + _number(beta, x)


def _call(name: str, x: Any) -> Any:
    return tir.call_intrin(x.dtype, name, x)


def _limited(x: Any, low: float, high: float) -> Any:
    return tir.Max(tir.Min(x, _number(high, x)), _number(low, x))


# Of ONNX's activations those that kernels know.
FUNCTIONS: Mapping[str, Callable[[Any, float, float], Any]] = {
    "Affine": _affine,
    "Relu": lambda x, _, __: tir.Max(x, _number(0.0, x)),
    "Sigmoid": lambda x, _, __: _call("tir.sigmoid", x),
    "Tanh": lambda x, _, __: _call("tir.tanh", x),
    "HardSigmoid": lambda x, a, b: _limited(_affine(x, a, b), 0.0, 1.0),
    "ScaledTanh": lambda x, a, b: _call("tir.tanh", x * _number(b, x)) * _number(a, x),
}


def _affine_in_relay(x: Any, alpha: Any, beta: Any) -> Any:
    return x * alpha + beta


# The same of Relay expressions, for layers that are unrolled.
RELAY_FUNCTIONS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "Affine": _affine_in_relay,
    "Relu": lambda x, _, __: relay.nn.relu(x),
    "Sigmoid": lambda x, _, __: relay.sigmoid(x),
    "Tanh": lambda x, _, __: relay.tanh(x),
    "HardSigmoid": lambda x, a, b: relay.clip(_affine_in_relay(x, a, b), 0.0, 1.0),
    "ScaledTanh": lambda x, a, b: relay.tanh(x * b) * a,
}


@dataclass(frozen=True)
class Function:
    """An activation and its numbers."""

    name: str
    """A key of :data:`FUNCTIONS`."""
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Layer:
    """A recurrent layer of one direction or two, all of whose sizes are known."""

    kind: str
    """A key of :data:`GATES`."""
    steps: int
    batch: int
    hidden: int
    reverse: tuple[bool, ...]
    """Whether each direction begins with the last step."""
    functions: tuple[Function, ...]
    """The same in every direction."""
    clip: float | None = None
    """Arguments of functions, but that of the cell, are held within -clip and clip."""
    is_linear_first: bool = False
    """Whether a GRU's state is multiplied by its weights before it is reset."""
    is_coupled: bool = False
    """Whether an LSTM forgets what its input gate takes in."""
    has_lengths: bool = False
    """Whether sequences may end before the last step."""

    @property
    def gates(self) -> int:
        """Sums of a unit."""
        return GATES[self.kind]

    @property
    def directions(self) -> int:
        """One or two."""
        return len(self.reverse)

    @property
    def panels(self) -> int:
        """Groups of units whose weights lie together."""
        return math.ceil(self.hidden / PANEL)

    @property
    def padded(self) -> int:
        """Units of all panels."""
        return self.panels * PANEL

    @property
    def has_cell(self) -> bool:
        """Whether there is a state besides the output."""
        return self.kind == LSTM

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """Gates that are computed of one state, in turn: a GRU's candidate may wait for a gate."""
        if self.kind == GRU and not self.is_linear_first:
            return ((0, 1), (2,))
        return (tuple(range(self.gates)),)

    @property
    def adds_after_reset(self) -> bool:
        """Whether the last gate's share of the input is added to what was reset."""
        return self.kind == GRU and self.is_linear_first

    @property
    def weights(self) -> int:
        """Numbers of a direction's weights, those of units that only fill a panel among them."""
        return self.gates * self.padded * self.hidden

    def weights_before(self, phase: int) -> int:
        """Return where a phase's weights begin among a direction's."""
        return sum(map(len, self.phases[:phase])) * self.padded * self.hidden

    def text(self) -> str:
        """Return the layer as a line that :meth:`of_text` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def of_text(text: str) -> Layer:
        """Return the layer that :meth:`text` wrote."""
        row = json.loads(text)
        row["functions"] = tuple(Function(**each) for each in row["functions"])
        return Layer(**{**row, "reverse": tuple(row["reverse"])})

    def applied(self, which: int, x: Any) -> Any:
        """Return function `which` of a value."""
        if self.clip is not None and which != OF_CELL:
            x = _limited(x, -self.clip, self.clip)
        function = self.functions[which]
        return FUNCTIONS[function.name](x, function.alpha, function.beta)

    def reset(self, sums: Sequence[Any], h: Any, keep: Keep) -> tuple[Any, Any]:
        """Return what a GRU's first phase gives: the update gate, and the state that was reset."""
        update, gate = (self.applied(OF_GATES, each) for each in sums)
        return keep(update), gate * h

    def after_reset(self, candidate: Any, update: Any, h: Any, keep: Keep) -> Any:
        """Return what a GRU's second phase gives: the new state."""
        made = keep(self.applied(OF_CANDIDATE, candidate))
        return (_number(1.0, h) - update) * made + update * h

    def step(
        self, sums: Sequence[Any], h: Any, c: Any, share: Any, keep: Keep
    ) -> tuple[Any, Any | None]:
        """Return the new state, and the new cell or None, of a layer of one phase.

        Parameters
        ----------
        sums
            Of each gate: products, the input's share, biases. Of a GRU's candidate products and
            the state's bias alone.
        h, c
            State and cell before; the cell is used of an LSTM only.
        share
            The input's share of a GRU's candidate; else not used.
        keep
            Keeps what is read several times.
        """
        if self.kind == RNN:
            return self.applied(OF_GATES, sums[0]), None
        if self.kind == GRU:
            update, gate = (keep(self.applied(OF_GATES, each)) for each in sums[:2])
            return self.after_reset(share + gate * sums[2], update, h, keep), None
        i = keep(self.applied(OF_GATES, sums[0]))
        forget = _number(1.0, i) - i if self.is_coupled else self.applied(OF_GATES, sums[2])
        cell = keep(forget * c + i * self.applied(OF_CANDIDATE, sums[3]))
        return self.applied(OF_GATES, sums[1]) * self.applied(OF_CELL, cell), cell


def step_at(layer: Layer, direction: Any, turn: Any) -> Any:
    """Return which step a direction, a number or an expression, takes in its turn."""
    last = layer.steps - 1
    if all(layer.reverse):
        return last - turn
    if not any(layer.reverse):
        return turn
    # Forward, then backward: what ONNX calls bidirectional.
    return turn + direction * (last - 2 * turn)


def results_of(layer: Layer) -> list[Any]:
    """Return the types of a layer's results: of all steps, the last state, an LSTM's last cell."""
    every = (layer.steps, layer.batch, layer.directions, layer.hidden)
    last = (layer.directions, layer.batch, layer.hidden)
    shapes = [every, last, *([last] if layer.has_cell else [])]
    return [tvm.ir.TensorType(shape, "float32") for shape in shapes]
