"""The operator of a recurrent layer: all of its steps, of the input's share of each gate.

Operands are ``shares [steps * batch, directions * gates * padded]``, the input's products with
all biases that may be added there; ``weights [directions, weights]``, phase by phase in panels
``[panels, hidden, gates, 16]``; ``bias [directions, padded]``, what is added to a GRU's candidate
before it is reset; ``h`` and ``c`` ``[directions, batch, hidden]``, the states before the first
step; and ``lengths [batch]``, int32. What a layer has not is a tensor of one element.

Results are ``[steps, batch, directions, hidden]`` and the last states ``[directions, batch,
hidden]``. Steps behind the end of a sequence give zeros, and leave its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay, te, tir

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.operators.recurrent_layer import PANEL, Layer, results_of, step_at

RECURRENT = "fusionx.recurrent"

# Annotation of the block, and attribute of the call: the layer as a text.
LAYER = "layer"

# Annotation of the block: names of the operands' buffers, one of them perhaps several times.
BUFFERS = "buffers"

# Names of the results' buffers: all steps, the last state, the last cell.
RESULTS = ("every", "last_state", "last_cell")

# As ``tvm.relay.op.op.OpPattern.OPAQUE``: TVM fuses nothing with it.
OPAQUE = 8

# Values that a step of any layer keeps.
MOST_KEPT = 4

OPERANDS = {
    "shares": "The input's share of each gate.",
    "weights": "Of the state, in panels.",
    "bias": "Added to a GRU's candidate before it is reset.",
    "h": "The state before the first step.",
    "c": "The cell before the first step.",
    "lengths": "Steps of each sequence.",
}


def register_recurrent() -> None:
    """Make the operator known to Relay; idempotent."""
    register_operator(
        RECURRENT,
        OPERANDS,
        _compute,
        pattern=OPAQUE,
        type_relation=_type,
        attributes="DictAttrs",
        schedule=_schedule,
    )


def recurrent(layer: Layer, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return Relay of a layer's results, of its operands in the order of :data:`OPERANDS`."""
    register_recurrent()
    attrs = tvm.ir.make_node("DictAttrs", **{LAYER: layer.text()})
    call = relay.Call(relay.op.get(RECURRENT), list(operands), attrs)
    return tuple(relay.TupleGetItem(call, at) for at in range(len(results_of(layer))))


def layer_of(attrs: Any) -> Layer:
    """Return the layer that attributes, or annotations, tell."""
    return Layer.of_text(str(attrs[LAYER]))


def _schedule(attrs: Any, outputs: Any, target: Any) -> Any:
    return te.create_schedule([output.op for output in outputs])


def _type(types: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, tvm.ir.TensorType) for each in types):
        return None
    return tvm.ir.TupleType(results_of(layer_of(attrs)))


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    return expression(layer_of(attrs), inputs)


def expression(layer: Layer, inputs: Sequence[Any]) -> list[Any]:
    """Return the tensors of a layer's results, of the tensors of its operands."""
    results = results_of(layer)
    # Buffers of ours, whose names tell them apart in a block that gives some of them only.
    buffers = [
        tir.decl_buffer(result.shape, result.dtype, name)
        for name, result in zip(RESULTS, results, strict=False)
    ]
    made = te.extern(
        [result.shape for result in results],
        list(inputs),
        lambda ins, outs: number_by_number(layer, ins, outs),
        out_buffers=buffers,
        dtype=[result.dtype for result in results],
        name="recurrent",
        attrs={LAYER: layer.text(), BUFFERS: [str(each.op.name) for each in inputs]},
    )
    return list(made)


def number_by_number(layer: Layer, operands: Sequence[Any], results: Sequence[Any]) -> Any:
    """Return the statement that computes a layer by the definition, for every kind of machine."""
    ib = tir.ir_builder.create()
    made = _NumberByNumber(ib, layer, operands, results)
    for direction in range(layer.directions):
        made.direction(direction)
    return ib.get()


class _NumberByNumber:
    """Writes the loops of one direction after the other; all of them use the same buffers."""

    def __init__(
        self, ib: Any, layer: Layer, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self.ib, self.layer = ib, layer
        self.shares, self.weights, self.bias, self.h, self.c, self.lengths = map(
            ib.buffer_ptr, operands
        )
        self.every, *self.last = map(ib.buffer_ptr, results)
        rows = (layer.batch, layer.hidden)
        self.state = ib.allocate("float32", (2, *rows), "state")
        # Used by some kinds only; what nobody uses goes.
        self.cell, self.reset, self.update = (
            ib.allocate("float32", rows, name) for name in ("cell", "reset", "update")
        )
        self.held = ib.allocate("float32", (MOST_KEPT,), "held")

    def direction(self, direction: int) -> None:
        """Write all steps of a direction."""
        ib, layer, state = self.ib, self.layer, self.state
        with ib.for_range(0, layer.batch, "b") as b, ib.for_range(0, layer.hidden, "u") as u:
            state[0, b, u] = self.h[direction, b, u]
            if layer.has_cell:
                self.cell[b, u] = self.c[direction, b, u]
        with ib.for_range(0, layer.steps, "turn") as turn:
            for phase in range(len(layer.phases)):
                with (
                    ib.for_range(0, layer.batch, "b") as b,
                    ib.for_range(0, layer.hidden, "u") as u,
                ):
                    self._unit(direction, turn, phase, b, u)
        with ib.for_range(0, layer.batch, "b") as b, ib.for_range(0, layer.hidden, "u") as u:
            self.last[0][direction, b, u] = state[layer.steps % 2, b, u]
            if layer.has_cell:
                self.last[1][direction, b, u] = self.cell[b, u]

    def _unit(self, direction: int, turn: Any, phase: int, b: Any, u: Any) -> None:
        """Write one unit's step, or its first half."""
        layer, state, now = self.layer, self.state, turn % 2
        time = step_at(layer, direction, turn)
        gates = layer.phases[phase]
        sums = self.ib.allocate("float32", (len(gates),), "sums")
        for at, gate in enumerate(gates):
            waits = layer.adds_after_reset and gate == layer.gates - 1
            share = self._share(direction, time, b, gate, u)
            sums[at] = self.bias[direction, u] if waits else share
            with self.ib.for_range(0, layer.hidden, "k") as k:
                row = (u // PANEL * layer.hidden + k) * len(gates) + at
                column = layer.weights_before(phase) + row * PANEL + u % PANEL
                source = self.reset[b, k] if phase else state[now, b, k]
                sums[at] = sums[at] + source * self.weights[direction, column]
        values = [sums[at] for at in range(len(gates))]
        slots = iter(range(MOST_KEPT))

        def keep(value: Any) -> Any:
            slot = next(slots)
            self.held[slot] = value
            return self.held[slot]

        h = state[now, b, u]
        if len(layer.phases) > 1 and phase == 0:
            self.update[b, u], self.reset[b, u] = layer.reset(values, h, keep)
            return
        new_c = None
        if len(layer.phases) > 1:
            new_h = layer.after_reset(values[0], self.update[b, u], h, keep)
        else:
            waiting = self._share(direction, time, b, layer.gates - 1, u)
            new_h, new_c = layer.step(values, h, self.cell[b, u], waiting, keep)
        running = time < self.lengths[b] if layer.has_lengths else tir.const(True, "bool")
        state[1 - now, b, u] = tir.if_then_else(running, new_h, h)
        zero = tir.const(0.0, "float32")
        ended = tir.if_then_else(running, state[1 - now, b, u], zero)
        self.every[time, b, direction, u] = ended
        if layer.has_cell:
            self.cell[b, u] = tir.if_then_else(running, new_c, self.cell[b, u])

    def _share(self, direction: int, time: Any, b: Any, gate: int, u: Any) -> Any:
        column = (direction * self.layer.gates + gate) * self.layer.padded + u
        return self.shares[time * self.layer.batch + b, column]
