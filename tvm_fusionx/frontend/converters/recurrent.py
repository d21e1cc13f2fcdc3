"""Recurrent layers: one operator where the kernel serves them, else unrolled over their steps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.recurrent_activations import (
    Function,
    activations_of,
    as_relay,
)
from tvm_fusionx.frontend.converters.recurrent_kernel import (
    Given,
    in_one_kernel,
    why_not_one_kernel,
)
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant
from tvm_fusionx.operators.recurrent_layer import Layer

logger = logging.getLogger(__name__)

IGNORED_BY_TVM = "TVM ignores direction=reverse, sequence_lens, clip and input_forget"

# One step: the input's share of all gates, then the state, to the new state.
Step = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]

# Inputs that all three operators have, by position.
X, W, R, B, SEQUENCE_LENS, INITIAL_H = range(6)
# Inputs of LSTM only.
INITIAL_C, PEEPHOLES = 6, 7
# LSTM's gates are i, o, f, c; GRU's z, r, h; RNN has one.
LSTM_GATES, GRU_GATES, RNN_GATES = 4, 3, 1
PEEPHOLE_GATES = 3
# A layer is unrolled, so its steps are the length of the compiled program.
MOST_STEPS = 5000
# Of X and R: steps, batch, features; directions, gates, hidden.
RANK = 3
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def _as_it_is(x: Any) -> Any:
    return x


@dataclass(frozen=True)
class Direction:
    """One direction of a layer: its weights, cut out of the operands, and its functions."""

    node: Node
    index: int
    is_reverse: bool
    gates: int
    hidden: int
    functions: tuple[Function, ...]
    look: Function
    """How a product sees its left side: as it is, or quantized."""

    def part(self, position: int) -> Any:
        """Return this direction's share of an operand, without the axis of directions."""
        tensor = self.node.tensor(position)
        if tensor.array is not None:
            return constant(tensor.array[self.index])
        shape = tensor.shape
        begin = [self.index] + [0] * (len(shape) - 1)
        end = [self.index + 1, *shape[1:]]
        return reshape(relay.strided_slice(tensor.expr, begin, end), shape[1:])

    def gate(self, x: Any, index: int) -> Any:
        """Return one gate's columns of ``(batch, gates * hidden)``."""
        start = index * self.hidden
        return relay.strided_slice(x, [start], [start + self.hidden], axes=[1])

    def row(self, x: Any, index: int) -> Any:
        """Return a part of a vector as ``(1, hidden)``."""
        start = index * self.hidden
        cut = relay.strided_slice(x, [start], [start + self.hidden])
        return reshape(cut, (1, self.hidden))

    def weight_rows(self, x: Any, first: int, last: int) -> Any:
        """Return the rows of gates `first` to `last`, excluded, of a weight matrix."""
        return relay.strided_slice(x, [first * self.hidden], [last * self.hidden], axes=[0])

    def input_bias(self) -> Any:
        """Return the biases that go with the input's weights, ``(gates * hidden,)``."""
        size = self.gates * self.hidden
        return relay.strided_slice(self.part(B), [0], [size])

    def state_bias(self) -> Any:
        """Return the biases that go with the state's weights, ``(gates * hidden,)``."""
        size = self.gates * self.hidden
        return relay.strided_slice(self.part(B), [size], [2 * size])


def _rnn_step(direction: Direction) -> Step:
    weight = direction.part(R)
    (f,) = direction.functions
    has_bias = direction.node.has(B)
    bias = direction.state_bias() if has_bias else None

    def step(inputs: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        total = inputs + relay.nn.dense(direction.look(state[0]), weight)
        return (f(relay.nn.bias_add(total, bias) if has_bias else total),)

    return step


def _gru_step(direction: Direction) -> Step:
    node, weight = direction.node, direction.part(R)
    f, g = direction.functions
    one = scalar(1.0, node.dtype())
    is_linear_first = bool(node.attribute("linear_before_reset", 0))
    bias = direction.state_bias() if node.has(B) else None
    gate_weight = direction.weight_rows(weight, 0, 2)
    candidate_weight = direction.weight_rows(weight, 2, GRU_GATES)

    def step(inputs: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        (h,) = state
        gates = relay.nn.dense(h, gate_weight)

        def gate(index: int) -> Any:
            total = direction.gate(inputs, index) + direction.gate(gates, index)
            return f(total if bias is None else total + direction.row(bias, index))

        z, r = gate(0), gate(1)
        if is_linear_first:
            candidate = relay.nn.dense(h, candidate_weight)
            candidate = candidate if bias is None else candidate + direction.row(bias, 2)
            candidate = r * candidate
        else:
            candidate = relay.nn.dense(r * h, candidate_weight)
            candidate = candidate if bias is None else candidate + direction.row(bias, 2)
        candidate = g(direction.gate(inputs, 2) + candidate)
        return ((one - z) * candidate + z * h,)

    return step


def _lstm_step(direction: Direction) -> Step:
    node, weight = direction.node, direction.part(R)
    f, g, h_function = direction.functions
    one = scalar(1.0, node.dtype())
    bias = direction.state_bias() if node.has(B) else None
    peepholes = direction.part(PEEPHOLES) if node.has(PEEPHOLES) else None
    is_coupled = bool(node.attribute("input_forget", 0))

    def step(inputs: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        h, c = state
        gates = inputs + relay.nn.dense(direction.look(h), weight)
        gates = gates if bias is None else relay.nn.bias_add(gates, bias)

        def gate(index: int, cell: Any) -> Any:
            total = direction.gate(gates, index)
            return f(total if peepholes is None else total + direction.row(peepholes, index) * cell)

        i = gate(0, c)
        forget = one - i if is_coupled else gate(2, c)
        new_c = forget * c + i * g(direction.gate(gates, 3))
        return gate(1, new_c) * h_function(new_c), new_c

    return step


def _is_full(node: Node, steps: int) -> bool:
    """Tell whether every sequence is known to have all the steps."""
    if not node.has(SEQUENCE_LENS):
        return True
    lengths = node.tensor(SEQUENCE_LENS).array
    return lengths is not None and bool((lengths == steps).all())


def _run(
    direction: Direction, step: Step, x: Any, state: tuple[Any, ...], sizes: tuple[int, int, int]
) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the state after each step, in order of time, and the state after the last one run."""
    node, (steps, batch, features) = direction.node, sizes
    width = direction.gates * direction.hidden
    # The input's share of all gates does not wait for the state: one product for all steps.
    seen = direction.look(reshape(x, (steps * batch, features)))
    shares = relay.nn.dense(seen, direction.part(W))
    if node.has(B):
        shares = relay.nn.bias_add(shares, direction.input_bias())
    shares = reshape(shares, (steps, batch, width))
    lengths = None if _is_full(node, steps) else reshape(node.expr(SEQUENCE_LENS), (batch, 1))
    results: list[Any] = [None] * steps
    for time in reversed(range(steps)) if direction.is_reverse else range(steps):
        share = relay.strided_slice(shares, [time], [time + 1], axes=[0])
        new = step(reshape(share, (batch, width)), state)
        results[time] = new[0]
        if lengths is not None:
            # A sequence that has ended keeps its state, and its output is zero.
            is_running = relay.less(scalar(time, node.dtype(SEQUENCE_LENS)), lengths)
            results[time] = relay.where(is_running, new[0], relay.zeros_like(new[0]))
            new = tuple(
                relay.where(is_running, after, before)
                for after, before in zip(new, state, strict=True)
            )
        state = new
    return results, state


def _check_widths(node: Node, gates: int, initial: tuple[int, ...], is_batch_first: bool) -> None:
    """Refuse operands whose sizes contradict one another, which TVM multiplies without a word."""
    if node.rank(X) != RANK or node.rank(R) != RANK:
        raise node.refuse(f"X and R of {RANK} dimensions", f"{node.rank(X)} and {node.rank(R)}")
    steps, batch, features = node.shape(X)
    if is_batch_first:
        steps, batch = batch, steps
    if steps < 1:
        raise node.refuse("one step at least", str(steps))
    hidden, kind = node.shape(R)[2], str(node.attribute("direction", "forward"))
    directions = DIRECTIONS.get(kind)
    if directions is None:
        raise node.refuse(f"a direction among {', '.join(DIRECTIONS)}", repr(kind))
    state = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    expected = {
        W: (directions, gates * hidden, features),
        R: (directions, gates * hidden, hidden),
        B: (directions, 2 * gates * hidden),
        SEQUENCE_LENS: (batch,),
        PEEPHOLES: (directions, PEEPHOLE_GATES * hidden),
        **dict.fromkeys(initial, state),
    }
    for position, shape in expected.items():
        if node.has(position) and node.shape(position) != shape:
            raise node.refuse(
                f"input {position} ({node.input_names[position]!r}) of shape {list(shape)}",
                str(list(node.shape(position))),
                "The model is damaged, or X has another shape than it was made for.",
            )
    given = node.attribute("hidden_size")
    if given is not None and int(given) != hidden:
        raise node.refuse(f"hidden_size={hidden}, the width of R", str(given))


def _convert(
    node: Node,
    gates: int,
    defaults: tuple[str, ...],
    make_step: Callable[[Direction], Step],
    initial: tuple[int, ...],
    look: Function = _as_it_is,
) -> list[Any]:
    is_batch_first = bool(node.attribute("layout", 0))
    _check_widths(node, gates, initial, is_batch_first)
    x = transpose(node.expr(X), (1, 0, 2)) if is_batch_first else node.expr(X)
    shape = node.shape(X)
    steps, batch = (shape[1], shape[0]) if is_batch_first else shape[:2]
    directions, _, hidden = node.shape(R)
    kind = str(node.attribute("direction", "forward"))
    activations = activations_of(node, defaults, directions)
    each = len(defaults)
    why = why_not_one_kernel(node, steps, activations, each, node.has(PEEPHOLES))
    if look is _as_it_is and why is None:
        reverse = tuple(kind == "reverse" or index == 1 for index in range(directions))
        limit = node.attribute("clip")
        layer = Layer(
            node.op_type,
            *(steps, batch, hidden, reverse, tuple(activations[:each])),
            clip=None if limit is None else float(limit),
            is_linear_first=bool(node.attribute("linear_before_reset", 0)),
            is_coupled=bool(node.attribute("input_forget", 0)),
            has_lengths=not _is_full(node, steps),
        )
        return _in_one_kernel(node, layer, x, initial, is_batch_first)
    logger.info("%s is unrolled: %s", node.name, why or "its products see quantized numbers")
    if steps > MOST_STEPS:
        raise node.refuse(f"1 to {MOST_STEPS} steps, as {why}", str(steps))
    functions = as_relay(node, activations, each)
    outputs, states = [], []
    for index in range(directions):
        own = functions[index * len(defaults) : (index + 1) * len(defaults)]
        is_reverse = kind == "reverse" or index == 1
        direction = Direction(node, index, is_reverse, gates, hidden, tuple(own), look)
        zero = relay.zeros((batch, hidden), node.dtype())
        state = tuple(
            _initial_state(node, position, index, is_batch_first) if node.has(position) else zero
            for position in initial
        )
        sizes = (steps, batch, shape[2])
        results, last = _run(direction, make_step(direction), x, state, sizes)
        outputs.append(relay.stack(results, axis=0))
        states.append(last)
    y = relay.stack(outputs, axis=1)
    if is_batch_first:
        y = transpose(y, (2, 0, 1, 3))
    axis = 1 if is_batch_first else 0
    last_states = [relay.stack(parts, axis=axis) for parts in zip(*states, strict=True)]
    return [y, *last_states]


def _in_one_kernel(
    node: Node, layer: Layer, x: Any, initial: tuple[int, ...], is_batch_first: bool
) -> list[Any]:
    """Return what ONNX wants of a layer that is one operator."""
    states = [node.expr(position) if node.has(position) else None for position in initial]
    if is_batch_first:
        states = [None if each is None else transpose(each, (1, 0, 2)) for each in states]
    h, c = states if layer.has_cell else (states[0], None)
    lengths = relay.cast(node.expr(SEQUENCE_LENS), "int32") if layer.has_lengths else None
    biases = node.tensor(B) if node.has(B) else None
    given = Given(x, node.tensor(W), node.tensor(R), biases, h, c, lengths)
    y, *last = in_one_kernel(layer, given)
    if is_batch_first:
        return [transpose(y, (1, 0, 2, 3)), *(transpose(each, (1, 0, 2)) for each in last)]
    return [transpose(y, (0, 2, 1, 3)), *last]


def _initial_state(node: Node, position: int, index: int, is_batch_first: bool) -> Any:
    value = node.expr(position)
    shape = node.shape(position)
    axis = 1 if is_batch_first else 0
    cut = relay.strided_slice(value, [index], [index + 1], axes=[axis])
    return reshape(cut, tuple(size for at, size in enumerate(shape) if at != axis))


@converter("RNN", through=22, because=IGNORED_BY_TVM)
def convert_rnn(node: Node) -> list[Any]:
    """H = f(X W' + H R' + biases), step by step."""
    return _convert(node, RNN_GATES, ("Tanh",), _rnn_step, (INITIAL_H,))


@converter("GRU", through=22, because=IGNORED_BY_TVM)
def convert_gru(node: Node) -> list[Any]:
    """Return a gated recurrent unit's outputs: all steps, and the last state."""
    return _convert(node, GRU_GATES, ("Sigmoid", "Tanh"), _gru_step, (INITIAL_H,))


@converter("LSTM", through=22, because=IGNORED_BY_TVM)
def convert_lstm(node: Node) -> list[Any]:
    """Return a long short-term memory's outputs: all steps, and the last state and cell."""
    return lstm(node)


def lstm(node: Node, look: Function = _as_it_is) -> list[Any]:
    """Return an LSTM's outputs; `look` is how its products see data and state."""
    functions = ("Sigmoid", "Tanh", "Tanh")
    return _convert(node, LSTM_GATES, functions, _lstm_step, (INITIAL_H, INITIAL_C), look)
