"""Turn rows of vectors in registers: what lay row after row comes to lie lane after lane, or back.

    a0 a1 a2 a3            a0 b0 a1 b1
    b0 b1 b2 b3     is     a2 b2 a3 b3

Each prime of the number of rows is a step, which puts each new row together from as many old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.tir.numbers import prime_factors


def turned(ib: Any, rows: Sequence[Any], lanes: int, dtype: str) -> Any:
    """Emit what turns `rows` of vectors, and return a buffer of their columns in order.

    A step of prime `p` interleaves `p` rows that lie apart by a `p`-th of all. It rotates the
    digits of an element's row and column, taken together, by one: in the end the column comes
    first.

    Parameters
    ----------
    rows
        More than one; each is read some times.
    lanes
        Of each row.
    """
    values, buffer = list(rows), None
    for prime in prime_factors(len(rows)):
        apart = len(rows) // prime
        buffer = ib.allocate(dtype, (len(rows) * lanes,), "turned", scope="local")._buffer
        for first in range(apart):
            for part in range(prime):
                value = _interleaved(values[first::apart], part, lanes)
                at = ramp((first * prime + part) * lanes, lanes)
                ib.emit(tir.BufferStore(buffer, value, [at]))
        values = [tir.BufferLoad(buffer, [ramp(row * lanes, lanes)]) for row in range(len(rows))]
    return buffer


def parted(ib: Any, rows: Sequence[Any], lanes: int, dtype: str) -> Any:
    """Emit what takes `rows` of vectors apart, and return a buffer: the inverse of :func:`turned`.

    Of numbers that lie together, all first ones come to lie side by side, then all second ones.
    """
    values, buffer = list(rows), None
    for prime in reversed(prime_factors(len(rows))):
        apart = len(rows) // prime
        buffer = ib.allocate(dtype, (len(rows) * lanes,), "parted", scope="local")._buffer
        for first in range(apart):
            together = values[first * prime : (first + 1) * prime]
            for each in range(prime):
                wanted = [divmod(lane * prime + each, lanes) for lane in range(lanes)]
                at = ramp((first + each * apart) * lanes, lanes)
                ib.emit(tir.BufferStore(buffer, _picked(together, wanted), [at]))
        values = [tir.BufferLoad(buffer, [ramp(row * lanes, lanes)]) for row in range(len(rows))]
    return buffer


def _interleaved(rows: Sequence[Any], part: int, lanes: int) -> Any:
    """Return a part, as long as a row, of `rows` put together lane by lane."""
    places = (divmod(part * lanes + lane, len(rows)) for lane in range(lanes))
    return _picked(rows, [(row, place) for place, row in places])


def _picked(rows: Sequence[Any], wanted: Sequence[tuple[int, int]]) -> Any:
    """Return a vector of lanes of `rows`, each wanted by its row and its place there."""
    lanes = len(wanted)
    first, *others = sorted({row for row, _ in wanted})
    value, places = rows[first], [place for _, place in wanted]
    for each in others:
        order = [
            lanes + place if row == each else kept
            for (row, place), kept in zip(wanted, places, strict=True)
        ]
        value = tir.Shuffle([value, rows[each]], [tir.const(place, "int32") for place in order])
        places = list(range(lanes))
    return value
