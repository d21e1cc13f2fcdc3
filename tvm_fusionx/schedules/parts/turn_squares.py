"""Copy a matrix turned, square by square: each of as many rows and columns as a vector has lanes.

A square is read by rows and written by columns, vectors both, and turned in registers between. Laid
out by TVM's primitives alone, a turned copy reads or writes element by element.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

NAME = "fusionx_turn"


def turn_square(sch: Any, loop: Any, lanes: int, dtype: str = "float32") -> bool:
    """Copy the square under `loop` by vectors, where it is one.

    Parameters
    ----------
    sch
        A schedule.
    loop
        The outer of two loops of `lanes` each, over columns and over rows of what is read, around
        a copy alone.
    lanes
        Elements of a vector, a power of two.
    dtype
        Of the elements.

    Returns
    -------
    bool
        Whether it was: rows that do not follow one another as they are numbered are no square.
    """
    index = str(sch.get(loop).loop_var.dtype)
    name = f"{NAME}_{lanes}_{dtype}_{index}"
    if tir.TensorIntrin.get(name, allow_missing=True) is None:
        tir.TensorIntrin.register(name, _copied(lanes, dtype, index), _turned(lanes, dtype, index))
    try:
        sch.tensorize(loop, name)
    except tvm.TVMError:
        return False
    return True


def _buffer(name: str, lanes: int, dtype: str, index: str) -> Any:
    size, one = tir.const(lanes, index), tir.const(1, index)
    strides = [tir.Var(f"{name}_stride", index), one]
    offset = tir.Var(f"{name}_offset", index)
    return tir.decl_buffer(
        (size, size), dtype, name, strides=strides, elem_offset=offset, offset_factor=1
    )


def _whole(buffer: Any) -> Any:
    zero = tir.const(0, buffer.shape[0].dtype)
    ranges = [tvm.ir.Range.from_min_extent(zero, extent) for extent in buffer.shape]
    return tir.BufferRegion(buffer, ranges)


def _function(source: Any, target: Any, body: Any) -> tir.PrimFunc:
    root = tir.Block([], [_whole(source)], [_whole(target)], "root", body)
    places = [tir.Var(name, "handle") for name in ("source", "target")]
    buffers = dict(zip(places, (source, target), strict=True))
    realize = tir.BlockRealize([], tir.const(True, "bool"), root)
    return tir.PrimFunc(places, realize, buffer_map=buffers)


def _copied(lanes: int, dtype: str, index: str) -> tir.PrimFunc:
    """Return what is replaced: element by element, columns around rows."""
    source, target = (_buffer(name, lanes, dtype, index) for name in ("s", "t"))
    zero, size = tir.const(0, index), tir.const(lanes, index)
    row, column = tir.Var("row", index), tir.Var("column", index)
    own_row, own_column = tir.Var("own_row", index), tir.Var("own_column", index)
    iters = [
        tir.IterVar(tvm.ir.Range(zero, size), each, tir.IterVar.DataPar)
        for each in (own_row, own_column)
    ]
    one = tir.const(1, index)

    def element(buffer: Any, *at: Any) -> Any:
        return tir.BufferRegion(buffer, [tvm.ir.Range.from_min_extent(each, one) for each in at])

    store = tir.BufferStore(
        target, tir.BufferLoad(source, [own_row, own_column]), [own_column, own_row]
    )
    reads, writes = element(source, own_row, own_column), element(target, own_column, own_row)
    block = tir.Block(iters, [reads], [writes], "copy", store)
    body: Any = tir.BlockRealize([row, column], tir.const(True, "bool"), block)
    for loop in (row, column):
        body = tir.For(loop, zero, size, tir.ForKind.SERIAL, body)
    return _function(source, target, body)


def _turned(lanes: int, dtype: str, index: str) -> tir.PrimFunc:
    """Return what replaces it: each step interleaves rows that lie half of all rows apart."""
    source, target = (_buffer(name, lanes, dtype, index) for name in ("s", "t"))

    def place(row: int) -> list[Any]:
        return [tir.const(row, index), tir.Ramp(tir.const(0, index), tir.const(1, index), lanes)]

    rows: list[Any] = [tir.BufferLoad(source, place(row)) for row in range(lanes)]
    half = lanes // 2
    pairs = [lane for at in range(lanes) for lane in (at, lanes + at)]
    for _ in range(lanes.bit_length() - 1):
        together = zip(rows[:half], rows[half:], strict=True)
        rows = [
            tir.Shuffle([low, high], part)
            for low, high in together
            for part in (pairs[:lanes], pairs[lanes:])
        ]
    stores = [tir.BufferStore(target, row, place(at)) for at, row in enumerate(rows)]
    return _function(source, target, tir.SeqStmt(stores))
