"""The kernel of a recurrent layer: a loop over the steps, and in it tiles of sequences by units.

A tile's sums begin with the input's share, meet the state element by element, and become the new
state where they are: activations are vectors of the same registers. Two states take turns, for
every unit reads the whole state before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.operators.recurrent_layer import PANEL, Layer, step_at
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import Vectors, broadcast, load, ramp
from tvm_fusionx.schedules.recurrent.tiling import RecurrentTiling

# Values that a step keeps of one vector: three of a GRU or an LSTM, and what is stored.
KEPT = 5

FLOAT = "float32"


@dataclass(frozen=True)
class Operands:
    """The buffers of a layer, as the operator has them."""

    shares: Any
    weights: Any
    bias: Any
    h: Any
    c: Any
    lengths: Any
    every: Any | None
    """All steps; None where nobody reads them, as the last states too."""
    last: Any | None
    last_cell: Any | None

    @property
    def reads(self) -> list[Any]:
        """Those that are read, each once."""
        found = (self.shares, self.weights, self.bias, self.h, self.c, self.lengths)
        return list({buffer.data: buffer for buffer in found}.values())

    @property
    def writes(self) -> list[Any]:
        """Those that are written."""
        found = (self.every, self.last, self.last_cell)
        return [buffer for buffer in found if buffer is not None]


@dataclass(frozen=True)
class _States:
    """What goes on from step to step, of some rows: flat buffers, a row after the other."""

    h: Any
    """Two states that take turns."""
    c: Any
    reset: Any
    update: Any
    rows: int


@dataclass(frozen=True)
class _Place:
    """Where a tile stands."""

    direction: Any
    time: Any
    first_state: Any
    """Row of the states that its direction begins with."""
    first_sequence: Any
    """Sequence of that row."""
    now: Any
    """Which of the two states is read."""


class RecurrentKernel:
    """Emits the kernel.

    Parameters
    ----------
    layer
        What is computed.
    operands
        Its buffers.
    tiling
        How it is divided.
    """

    def __init__(self, layer: Layer, operands: Operands, tiling: RecurrentTiling) -> None:
        self.layer, self.operands, self.tiling = layer, operands, tiling
        self.lanes = tiling.lanes
        self.ib = tir.ir_builder.create()
        self.vectors = Vectors(self.ib, FLOAT)

    def build(self, *, parallel: bool) -> Any:
        """Return the statement."""
        if self.tiling.slices:
            self._alone(parallel=parallel)
        else:
            self._together(parallel=parallel)
        return self.ib.get()

    def _alone(self, *, parallel: bool) -> None:
        """Each task goes through all steps of its sequences."""
        layer, slices = self.layer, self.tiling.slices
        rows = -(-layer.batch // slices)
        with tasks(self.ib, [layer.directions, slices], parallel=parallel) as (direction, part):
            states = self._states(rows)
            first = start_of(part, rows, layer.batch, slices)
            self._begin(states, direction, 0, first, rows)
            with self.ib.for_range(0, layer.steps, "turn") as turn:
                time = step_at(layer, direction, turn)
                place = _Place(direction, time, 0, first, turn % 2)
                for phase in range(len(layer.phases)):
                    with self.ib.for_range(0, self._blocks, "block") as block:
                        self._rows(states, phase, place, block, rows)
            self._end(states, direction, 0, first, rows)

    def _together(self, *, parallel: bool) -> None:
        """All tasks share each step."""
        layer, groups = self.layer, self.tiling.groups
        share = -(-self._blocks // groups)
        states = self._states(layer.directions * layer.batch)
        for direction in range(layer.directions):
            self._begin(states, direction, direction * layer.batch, 0, layer.batch)
        with self.ib.for_range(0, layer.steps, "turn") as turn:
            for phase in range(len(layer.phases)):
                extents = [layer.directions, groups]
                with tasks(self.ib, extents, parallel=parallel) as (direction, group):
                    time = step_at(layer, direction, turn)
                    place = _Place(direction, time, direction * layer.batch, 0, turn % 2)
                    first = group * share
                    count: Any = share
                    if groups * share != self._blocks:
                        count = tir.min(share, self._blocks - first)
                    with self.ib.for_range(0, count, "block") as block:
                        self._rows(states, phase, place, first + block, layer.batch)
        for direction in range(layer.directions):
            self._end(states, direction, direction * layer.batch, 0, layer.batch)

    @property
    def _blocks(self) -> int:
        """Tiles that cover the units; what only fills the last panel is in none, or in the last."""
        return -(-self.layer.hidden // self.tiling.units)

    def _states(self, rows: int) -> _States:
        size = rows * self.layer.padded
        two = len(self.layer.phases) > 1
        return _States(
            self.vectors.allocate("state", 2 * size),
            self.vectors.allocate("cell", size) if self.layer.has_cell else None,
            self.vectors.allocate("reset", size) if two else None,
            self.vectors.allocate("update", size) if two else None,
            rows,
        )

    def _begin(self, states: _States, direction: Any, row: Any, first: Any, rows: int) -> None:
        """Put the first states in their place."""
        layer = self.layer
        pairs = [(states.h, self.operands.h)]
        pairs += [(states.c, self.operands.c)] if layer.has_cell else []
        with self.ib.for_range(0, rows, "row") as at, self.ib.for_range(0, layer.hidden, "u") as u:
            for state, given in pairs:
                value = tir.BufferLoad(given, [direction, first + at, u])
                self.ib.emit(tir.BufferStore(state, value, [(row + at) * layer.padded + u]))

    def _end(self, states: _States, direction: Any, row: Any, first: Any, rows: int) -> None:
        """Give the last states."""
        layer = self.layer
        if self.operands.last is None and self.operands.last_cell is None:
            return
        last = layer.steps % 2 * states.rows
        pairs = [(states.h, last, self.operands.last), (states.c, 0, self.operands.last_cell)]
        with self.ib.for_range(0, rows, "row") as at, self.ib.for_range(0, layer.hidden, "u") as u:
            for state, behind, given in pairs:
                if given is None:
                    continue
                place = (behind + row + at) * layer.padded + u
                value = tir.BufferLoad(state, [place])
                self.ib.emit(tir.BufferStore(given, value, [direction, first + at, u]))

    def _rows(self, states: _States, phase: int, place: _Place, block: Any, rows: int) -> None:
        """Compute tile after tile of all rows, of one block of units."""
        tile = min(self.tiling.rows, rows)
        if rows // tile > 1:
            with self.ib.for_range(0, rows // tile, "tile") as number:
                self._tile(states, phase, place, block, number * tile, tile)
        else:
            self._tile(states, phase, place, block, 0, tile)
        if rows % tile:
            self._tile(states, phase, place, block, rows - rows % tile, rows % tile)

    def _tile(
        self, states: _States, phase: int, place: _Place, block: Any, first: Any, rows: int
    ) -> None:
        layer, tiling, lanes = self.layer, self.tiling, self.lanes
        gates = layer.phases[phase]
        unit = block * tiling.units
        across = tiling.units // lanes
        sums = VectorSums(self.ib, rows * len(gates) * across * tiling.chains, lanes, FLOAT)

        def at(row: int, gate: int, vector: int, chain: int = 0) -> int:
            return ((row * len(gates) + gate) * across + vector) * tiling.chains + chain

        places = [
            (row, gate, vector)
            for row in range(rows)
            for gate in range(len(gates))
            for vector in range(across)
        ]
        for row, gate, vector in places:
            sequence = place.first_sequence + first + row
            value = self._start(place, gates[gate], sequence, unit + vector * lanes)
            sums.put(at(row, gate, vector), value)
            for chain in range(1, tiling.chains):
                sums.put(at(row, gate, vector, chain), broadcast(tir.const(0.0, FLOAT), lanes))
        source, behind = (states.reset, 0) if phase else (states.h, place.now * states.rows)

        def add(k: Any, chain: int) -> None:
            for row, gate, vector in places:
                line = (behind + place.first_state + first + row) * layer.padded
                element = broadcast(tir.BufferLoad(source, [line + k]), lanes)
                weight = self._weight(place.direction, phase, unit, vector, k, gate)
                sums.add_product(at(row, gate, vector, chain), element, weight)

        chains = tiling.chains
        with self.ib.for_range(0, layer.hidden // chains, "k") as k:
            for chain in range(chains):
                add(k * chains + chain, chain)
        for rest in range(layer.hidden % chains):
            add(layer.hidden - layer.hidden % chains + rest, rest)
        for row, gate, vector in places:
            for chain in range(1, chains):
                total = sums.value(at(row, gate, vector)) + sums.value(at(row, gate, vector, chain))
                sums.put(at(row, gate, vector), total)
        for row in range(rows):
            for vector in range(across):
                values = [sums.value(at(row, gate, vector)) for gate in range(len(gates))]
                self._finish(states, phase, place, first + row, unit + vector * lanes, values)

    def _start(self, place: _Place, gate: int, sequence: Any, unit: Any) -> Any:
        """Return what a sum begins with: the input's share, or a bias."""
        layer, operands = self.layer, self.operands
        if layer.adds_after_reset and gate == layer.gates - 1:
            return tir.BufferLoad(operands.bias, [place.direction, ramp(unit, self.lanes)])
        return self._share(place, gate, sequence, unit)

    def _share(self, place: _Place, gate: int, sequence: Any, unit: Any) -> Any:
        layer = self.layer
        column = (place.direction * layer.gates + gate) * layer.padded + unit
        row = place.time * layer.batch + sequence
        return tir.BufferLoad(self.operands.shares, [row, ramp(column, self.lanes)])

    def _weight(self, direction: Any, phase: int, unit: Any, vector: int, k: Any, gate: int) -> Any:
        layer, lanes = self.layer, self.lanes
        gates = len(layer.phases[phase])
        panel, lane = tir.floordiv(unit, PANEL), tir.floormod(unit, PANEL)
        further, lane_after = divmod(vector * lanes, PANEL)
        row = ((panel + further) * layer.hidden + k) * gates + gate
        column = layer.weights_before(phase) + row * PANEL + lane + lane_after
        return tir.BufferLoad(self.operands.weights, [direction, ramp(column, lanes)])

    def _finish(
        self, states: _States, phase: int, place: _Place, row: Any, unit: Any, sums: list[Any]
    ) -> None:
        """Make the new state of one vector of units."""
        layer, lanes = self.layer, self.lanes
        keep = self.vectors.keeper("kept", lanes, KEPT)
        line = (place.first_state + row) * layer.padded + unit
        size = states.rows * layer.padded
        h = load(states.h, place.now * size + line, lanes)
        if len(layer.phases) > 1 and phase == 0:
            update, reset = layer.reset(sums, h, keep)
            self.vectors.store(states.update, line, update, lanes)
            self.vectors.store(states.reset, line, reset, lanes)
            return
        sequence = place.first_sequence + row
        cell = None
        if len(layer.phases) > 1:
            state = layer.after_reset(sums[0], load(states.update, line, lanes), h, keep)
        else:
            c = load(states.c, line, lanes) if layer.has_cell else None
            waits = layer.adds_after_reset
            share = self._share(place, layer.gates - 1, sequence, unit) if waits else None
            state, cell = layer.step(sums, h, c, share, keep)
        state = keep(state)
        after = (1 - place.now) * size + line
        zeros = broadcast(tir.const(0.0, FLOAT), lanes)

        def go_on() -> None:
            self.vectors.store(states.h, after, state, lanes)
            if cell is not None:
                self.vectors.store(states.c, line, cell, lanes)
            self._give(place, sequence, unit, state, states.h, after)

        if not layer.has_lengths:
            go_on()
            return
        running = place.time < tir.BufferLoad(self.operands.lengths, [sequence])
        with self.ib.if_scope(running):
            go_on()
        with self.ib.else_scope():
            self.vectors.store(states.h, after, h, lanes)
            self._give(place, sequence, unit, zeros, None, None)

    def _give(
        self, place: _Place, sequence: Any, unit: Any, value: Any, kept: Any, start: Any
    ) -> None:
        """Store a vector of a step's result, or what of it is there of the last units."""
        layer, lanes, every = self.layer, self.lanes, self.operands.every
        if every is None:
            return

        def whole() -> None:
            at = [place.time, sequence, place.direction, ramp(unit, lanes)]
            self.ib.emit(tir.BufferStore(every, value, at))

        if layer.hidden % self.tiling.units == 0:
            whole()
            return
        with self.ib.if_scope(unit + lanes <= layer.hidden):
            whole()
        with self.ib.else_scope():
            left = tir.max(layer.hidden - unit, 0)
            with self.ib.for_range(0, left, "lane") as lane:
                one = tir.BufferLoad(kept, [start + lane]) if kept is not None else None
                number = tir.const(0.0, FLOAT) if one is None else one
                at = [place.time, sequence, place.direction, unit + lane]
                self.ib.emit(tir.BufferStore(every, number, at))
