"""Recurrent layers step by step in Relay, for machines that our kernel of a layer is not for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.operators.recurrent_layer import (
    GRU,
    OF_CANDIDATE,
    OF_CELL,
    OF_GATES,
    PANEL,
    RELAY_FUNCTIONS,
    RNN,
    Layer,
    step_at,
)


def unrolled(layer: Layer, operands: Sequence[Any]) -> relay.Tuple:
    """Return a layer's results by operators of TVM's own.

    Parameters
    ----------
    operands
        As :mod:`tvm_fusionx.operators.recurrent_operator` orders them.
    """
    made = [_Direction(layer, operands, number).results() for number in range(layer.directions)]
    every, *last = zip(*made, strict=True)
    return relay.Tuple(
        [relay.stack(list(every), axis=2), *(relay.stack(list(each), axis=0) for each in last)]
    )


class _Direction:
    """One direction of a layer: its shares of the operands."""

    def __init__(self, layer: Layer, operands: Sequence[Any], number: int) -> None:
        self.layer, self.number = layer, number
        shares, self.weights, self.bias, self.h, self.c, self.lengths = operands
        shape = (layer.steps, layer.batch, layer.directions, layer.gates, layer.padded)
        self.shares = relay.reshape(shares, shape)
        self.products = [self._phase(phase) for phase in range(len(layer.phases))]

    def results(self) -> list[Any]:
        """Return all steps ``(steps, batch, hidden)``, the last state, an LSTM's last cell."""
        layer = self.layer
        h = self._own(self.h, (layer.batch, layer.hidden))
        c = self._own(self.c, (layer.batch, layer.hidden)) if layer.has_cell else None
        every: list[Any] = [None] * layer.steps
        for turn in range(layer.steps):
            time = int(step_at(layer, self.number, turn))
            new_h, new_c = self._step(time, h, c)
            every[time] = new_h
            if layer.has_lengths:
                ends = relay.reshape(self.lengths, (layer.batch, 1))
                runs = relay.less(relay.const(time, "int32"), ends)
                every[time] = relay.where(runs, new_h, relay.zeros_like(new_h))
                new_h = relay.where(runs, new_h, h)
                new_c = None if c is None else relay.where(runs, new_c, c)
            h, c = new_h, new_c
        return [relay.stack(every, axis=0), h, *([c] if layer.has_cell else [])]

    def _own(self, operand: Any, shape: tuple[int, ...]) -> Any:
        cut = relay.strided_slice(operand, [self.number], [self.number + 1], axes=[0])
        return relay.reshape(cut, shape)

    def _phase(self, phase: int) -> Any:
        """Return a phase's weights as a matrix, ``(gates * padded, hidden)``."""
        layer = self.layer
        gates = len(layer.phases[phase])
        first = layer.weights_before(phase)
        size = gates * layer.padded * layer.hidden
        own = relay.strided_slice(
            self.weights, [self.number, first], [self.number + 1, first + size], [1, 1], [0, 1]
        )
        panels = relay.reshape(own, (layer.panels, layer.hidden, gates, PANEL))
        turned = relay.transpose(panels, (2, 0, 3, 1))
        return relay.reshape(turned, (gates * layer.padded, layer.hidden))

    def _sums(self, phase: int, state: Any) -> list[Any]:
        """Return the products of each gate of a phase, ``(batch, hidden)``."""
        padded, hidden = self.layer.padded, self.layer.hidden
        product = relay.nn.dense(state, self.products[phase])
        return [
            relay.strided_slice(product, [at * padded], [at * padded + hidden], axes=[1])
            for at in range(len(self.layer.phases[phase]))
        ]

    def _share(self, time: int, gate: int) -> Any:
        layer = self.layer
        begin = [time, 0, self.number, gate, 0]
        end = [time + 1, layer.batch, self.number + 1, gate + 1, layer.hidden]
        return relay.reshape(
            relay.strided_slice(self.shares, begin, end), (layer.batch, layer.hidden)
        )

    def _applied(self, which: int, x: Any) -> Any:
        layer = self.layer
        if layer.clip is not None and which != OF_CELL:
            x = relay.clip(x, -layer.clip, layer.clip)
        function = layer.functions[which]
        numbers = (relay.const(np.float32(each)) for each in (function.alpha, function.beta))
        return RELAY_FUNCTIONS[function.name](x, *numbers)

    def _step(self, time: int, h: Any, c: Any) -> tuple[Any, Any]:
        layer, one = self.layer, relay.const(np.float32(1.0))
        sums = self._sums(0, h)
        if layer.kind == RNN:
            return self._applied(OF_GATES, self._share(time, 0) + sums[0]), None
        if layer.kind == GRU:
            z, r = (self._applied(OF_GATES, self._share(time, at) + sums[at]) for at in (0, 1))
            if layer.adds_after_reset:
                bias = relay.strided_slice(
                    self.bias,
                    [self.number, 0],
                    [self.number + 1, layer.hidden],
                )
                added = r * (sums[2] + bias)
            else:
                (added,) = self._sums(1, r * h)
            candidate = self._applied(OF_CANDIDATE, self._share(time, 2) + added)
            return (one - z) * candidate + z * h, None
        gates = [self._share(time, at) + each for at, each in enumerate(sums)]
        i = self._applied(OF_GATES, gates[0])
        forget = one - i if layer.is_coupled else self._applied(OF_GATES, gates[2])
        cell = forget * c + i * self._applied(OF_CANDIDATE, gates[3])
        return self._applied(OF_GATES, gates[1]) * self._applied(OF_CELL, cell), cell
