"""The loops of a stage in pieces: each task writes its share of every piece, vector by vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.parallelism import EVEN_SHARES
from tvm_fusionx.schedules.parts.tasks import start_of
from tvm_fusionx.schedules.parts.transpose_in_registers import parted, turned
from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.tir.block import loads_of
from tvm_fusionx.tir.strided_accesses import Copy

# Takes the index of a lane, and returns what a load stands for.
Read = Callable[[Any], Any]


@dataclass(frozen=True)
class Lane:
    """What is stored at one place inside the axis along which vectors run."""

    copy: Copy
    indices: tuple[int, ...]
    """Along the axes inside."""


@dataclass(frozen=True)
class Piece:
    """A box whose vectors run along one axis."""

    extents: tuple[int, ...]
    """Of the axes around those vectors, outermost first."""
    length: int
    """Of the axis along which they run."""
    lanes: tuple[Lane, ...]
    """One for each place along the axes inside, as they lie in memory: their vectors are turned."""
    columns: int = 1
    """Of the axis along which results lie side by side, where it is not all inside: the last index
    of every place. Vectors of neighbouring columns are turned then."""
    parted: tuple[int, ...] = ()
    """Numbers of the loads that lie together for all `lanes`, as colours do in a picture by pixels:
    they are taken apart, and each lane is stored by itself."""

    @property
    def is_turned(self) -> bool:
        """Tell whether vectors are turned in registers."""
        return len(self.lanes) > 1 or self.columns > 1


def build_moves(pieces: Sequence[Piece], lanes: int, tasks: int) -> Any:
    """Return the statement that writes all pieces, each shared out among so many tasks.

    Parameters
    ----------
    lanes
        Of a vector; pieces that are shorter get the widest power of two in them.
    """
    ib = tir.ir_builder.create()
    with ib.for_range(0, tasks, "task", kind="parallel" if tasks > 1 else "serial") as task:
        for piece in pieces:
            _PieceLoops(ib, piece, lanes).write(task, tasks)
    return ib.get()


def indices_of(place: Any, extents: Sequence[int]) -> tuple[Any, ...]:
    """Return the index along each axis of the place that has number `place`."""
    found = []
    for extent in reversed(extents):
        found.append(place % extent)
        place = place // extent
    return tuple(reversed(found))


class _PieceLoops:
    def __init__(self, ib: Any, piece: Piece, lanes: int) -> None:
        self.ib, self.piece = ib, piece
        self.lanes, self.columns = _widest(piece.length, lanes), _widest(piece.columns, lanes)
        vectors = math.ceil(piece.length / self.lanes)
        across = () if piece.columns == 1 else (math.ceil(piece.columns / self.columns),)
        self.loops = (*piece.extents, vectors, *across)

    def write(self, task: Any, tasks: int) -> None:
        """Write a task's share; where shares are not equal, the last task begins earlier."""
        shared = self._shared(tasks)
        total = math.prod(self.loops[:shared])
        each = math.ceil(total / tasks)
        start = start_of(task, each, total, tasks)
        with self.ib.for_range(0, each, "part") as part:
            self._inside(indices_of(start + part, self.loops[:shared]))

    def _shared(self, tasks: int) -> int:
        """Return how many of the loops, from the outermost on, are shared out as one."""
        for number in range(1, len(self.loops)):
            count = math.prod(self.loops[:number])
            if count % tasks == 0 or count >= EVEN_SHARES * tasks:
                return number
        return len(self.loops)

    def _inside(self, indices: tuple[Any, ...]) -> None:
        if len(indices) < len(self.loops):
            with self.ib.for_range(0, self.loops[len(indices)], "row") as row:
                self._inside((*indices, row))
            return
        rows = indices[: len(self.piece.extents)]
        vector, *across = indices[len(rows) :]
        first = start_of(vector, self.lanes, self.piece.length)
        if across:
            self._write_tile(rows, first, start_of(across[0], self.columns, self.piece.columns))
        else:
            self._write_vectors(rows, first)

    def _write_vectors(self, rows: Sequence[Any], first: Any) -> None:
        """Write a vector for each place inside the axis, turned where there are several."""
        begin = self.piece.lanes[0]
        result = begin.copy.store.buffer
        at = begin.copy.store.at([*rows, first, *begin.indices])
        if len(self.piece.lanes) == 1:
            self._emit(begin, rows, first, result, lambda lane: at + lane)
            return
        if self.piece.parted:
            self._write_parted(rows, first)
            return
        columns = self._turned(self.piece.lanes, rows, first)
        for start in range(0, len(self.piece.lanes) * self.lanes, self.lanes):
            value = tir.BufferLoad(columns, [ramp(start, self.lanes)])
            self.ib.emit(tir.BufferStore(result, value, [ramp(at + start, self.lanes)]))

    def _write_parted(self, rows: Sequence[Any], first: Any) -> None:
        """Write a vector for each lane, once what they read together is taken apart."""
        lanes = self.piece.lanes
        starts = range(0, len(lanes) * self.lanes, self.lanes)
        apart = {}
        for number in self.piece.parted:
            line = lanes[0].copy.loads[number]
            at = line.at([*rows, first, *lanes[0].indices])
            together = [
                tir.BufferLoad(line.buffer, [ramp(at + start, self.lanes)]) for start in starts
            ]
            apart[number] = parted(self.ib, together, self.lanes, line.buffer.dtype)
        for start, each in zip(starts, lanes, strict=True):
            at = each.copy.store.at([*rows, first, *each.indices])
            self._emit(
                each,
                rows,
                first,
                each.copy.store.buffer,
                lambda lane, at=at: at + lane,
                {number: _vector_of(buffer, start) for number, buffer in apart.items()},
            )

    def _write_tile(self, rows: Sequence[Any], first: Any, column: Any) -> None:
        """Write some columns of the places of a vector: their vectors are turned."""
        (lane,) = self.piece.lanes
        store = lane.copy.store
        copy, computed = self._computed_by_column(lane.copy, rows, first, column)
        lanes = [Lane(copy, (column + number,)) for number in range(self.columns)]
        apart = [
            {number: _number_of(buffer, place) for number, buffer in computed.items()}
            for place in range(self.columns)
        ]
        columns = self._turned(lanes, rows, first, apart)
        # The columns of a place fill some vectors, or a part of one.
        run = min(self.columns, self.lanes)
        for start in range(0, self.columns * self.lanes, run):
            place, inner = divmod(start, self.columns)
            at = store.at([*rows, first + place, column + inner])
            value = tir.BufferLoad(columns, [ramp(start, run)])
            self.ib.emit(tir.BufferStore(store.buffer, value, [ramp(at, run)]))

    def _computed_by_column(
        self, copy: Copy, rows: Sequence[Any], first: Any, column: Any
    ) -> tuple[Copy, dict[int, Any]]:
        """Compute what a column alone decides, as a row's scale, for all columns of a tile at once.

        Returns
        -------
        tuple
            The copy, which loads the results as further numbers; and by these numbers their
            buffers, an element a column.
        """
        found: dict[int, Any] = {}

        def compute(expr: Any) -> Any:
            loads = loads_of(expr)
            if not (loads and isinstance(expr, tir.PrimExpr) and computes(expr)):
                return None
            lines = [copy.loads[int(load.indices[0])] for load in loads]
            if any(line.steps[-1] == 0 or line.steps[-2] != 0 for line in lines):
                return None
            buffer = self.ib.allocate(expr.dtype, (self.columns,), "column", scope="local")._buffer
            lane = tir.Var("lane", "int32")

            def read(load: Any) -> Any:
                line = copy.loads[int(load.indices[0])]
                return tir.BufferLoad(line.buffer, [line.at([*rows, first, column + lane])])

            store = tir.BufferStore(buffer, expr, [lane])
            stmt = tir.stmt_functor.ir_transform(store, None, read, ["tir.BufferLoad"])
            self.ib.emit(tir.For(lane, 0, self.columns, tir.ForKind.VECTORIZED, stmt))
            number = len(copy.loads) + len(found)
            found[number] = buffer
            return tir.BufferLoad(buffer, [number])

        value = tir.stmt_functor.ir_transform(tir.Evaluate(copy.value), compute, None).value
        return replace(copy, value=value), found

    def _turned(
        self,
        lanes: Sequence[Lane],
        rows: Sequence[Any],
        first: Any,
        apart: Sequence[Mapping[int, Read]] | None = None,
    ) -> Any:
        """Compute a vector of each of some lanes, and return a buffer of them turned."""
        dtype = lanes[0].copy.store.buffer.dtype
        size = len(lanes) * self.lanes
        buffer = self.ib.allocate(dtype, (size,), "vectors", scope="local")._buffer
        values = []
        for number, lane in enumerate(lanes):
            start = number * self.lanes
            known = apart[number] if apart is not None else {}
            self._emit(lane, rows, first, buffer, lambda at, start=start: start + at, known)
            values.append(tir.BufferLoad(buffer, [ramp(start, self.lanes)]))
        return turned(self.ib, values, self.lanes, dtype)

    def _emit(
        self,
        each: Lane,
        rows: Sequence[Any],
        first: Any,
        buffer: Any,
        place: Callable[..., Any],
        apart: Mapping[int, Read] = MappingProxyType({}),
    ) -> None:
        """Store a vector of what `each` computes from index `first` on, where `place` says.

        Parameters
        ----------
        apart
            What was read or computed before, by the number of the load.
        """
        lane = tir.Var("lane", "int32")

        def read(load: Any) -> Any:
            number = int(load.indices[0])
            if number in apart:
                return apart[number](lane)
            line = each.copy.loads[number]
            return tir.BufferLoad(line.buffer, [line.at([*rows, first + lane, *each.indices])])

        store = tir.BufferStore(buffer, each.copy.value, [place(lane)])
        stmt = tir.stmt_functor.ir_transform(store, None, read, ["tir.BufferLoad"])
        self.ib.emit(tir.For(lane, 0, self.lanes, tir.ForKind.VECTORIZED, stmt))


def computes(value: Any) -> bool:
    """Tell whether an expression divides, or has functions that are more than an instruction."""
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, tir.Div | tir.Call)

    tir.stmt_functor.post_order_visit(value, visit)
    return found


def _vector_of(buffer: Any, start: int) -> Read:
    return lambda lane: tir.BufferLoad(buffer, [start + lane])


def _number_of(buffer: Any, place: int) -> Read:
    return lambda lane: tir.BufferLoad(buffer, [place])


def _widest(length: int, lanes: int) -> int:
    """Return the widest power of two that is no more than either."""
    return min(lanes, 1 << (length.bit_length() - 1))
