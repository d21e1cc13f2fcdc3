"""Where a convolution by minimal filtering reads its input: a tensor, or chunks moved about in it.

What stands before the convolution in its block may take slices of a batch, pad it and put pieces
beside one another, as convolutions over frames do. Vectors stay whole then, so nothing is moved:
each place of the input is a place of the one tensor, or zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.flat_access import cases_of

# Axes of NCHWc data before those that must stay as they are: rows, columns and lanes.
MOVED_AXES = 2
RANK = 5


@dataclass(frozen=True)
class Source:
    """What the input ``[N, C / c, H, W, c]`` of a convolution is made of."""

    buffer: Any
    """The tensor that is read, ``[n, k / c, H, W, c]``."""

    variables: tuple[Any, ...] = ()
    """Image and chunk of the input; empty when the tensor is the input."""

    place: tuple[Any, ...] = ()
    """Image and chunk of the tensor, by `variables`."""

    inside: Any = None
    """Which images and chunks come from the tensor, by `variables`; the others are zero."""

    def at(self, image: Any, chunk: Any) -> tuple[tuple[Any, ...], Any]:
        """Return image and chunk of the tensor for those of the input, and when it has them.

        The condition is None when it always has.
        """
        if not self.variables:
            return (image, chunk), None
        to = {
            var: _cast(index, var.dtype)
            for var, index in zip(self.variables, (image, chunk), strict=True)
        }
        substitute = tir.stmt_functor.substitute
        place = tuple(_cast(substitute(each, to), image.dtype) for each in self.place)
        return place, None if self.inside is None else substitute(self.inside, to)


@dataclass(frozen=True)
class _Read:
    """A value: an element of the tensor where `inside` holds, and zero elsewhere."""

    load: Any
    inside: Any


def find_source(info: BlockInfo, reader: str) -> Source | str:
    """Return what stage `reader` reads, beyond the stages before it, or why it is not one tensor.

    Parameters
    ----------
    info
        The block.
    reader
        Name of the stage that reads the input, and nothing else.
    """
    (data,) = info.stages[reader].reads
    before = info.upstream(reader)
    if not before:
        return Source(data)
    if any(set(info.consumers[name]) - before - {reader} for name in before):
        return "what it reads is computed for others as well"
    names = ("image", "chunk", "row", "column", "lane")
    place = [tir.Var(name, of.dtype) for name, of in zip(names, data.shape, strict=True)]
    moving = place[:MOVED_AXES]
    analyzer = tvm.arith.Analyzer()
    for var, extent in zip(place, data.shape, strict=True):
        analyzer.bind(var, tvm.ir.Range(0, extent))
    bodies = {
        buffer.data: info.stages[name].block
        for name in before
        for buffer in info.stages[name].writes
    }
    read = _read(tir.BufferLoad(data, place), bodies, analyzer)
    if read is None or read.load is None:
        return "what it reads is not one tensor whose chunks are moved"
    indices = [analyzer.simplify(index) for index in read.load.indices]
    kept = zip(indices[MOVED_AXES:], place[MOVED_AXES:], strict=False)
    inside = analyzer.simplify(read.inside)
    moved = [*indices[:MOVED_AXES], inside]
    if len(indices) != RANK or not all(index.same_as(var) for index, var in kept):
        return "what it reads is moved within images"
    if any(tir.analysis.undefined_vars(each, moving) for each in moved):
        return "what it reads is not moved by whole images"
    always = isinstance(inside, tir.IntImm) and bool(inside)
    at = tuple(moved[:MOVED_AXES])
    return Source(read.load.buffer, tuple(moving), at, None if always else inside)


def _read(value: Any, bodies: dict[Any, Any], analyzer: Any) -> _Read | None:
    """Return a value as an element of one tensor, or None when it is none."""
    value = _written(value, bodies, analyzer)
    if isinstance(value, tir.BufferLoad):
        return _Read(value, tir.const(True))
    if isinstance(value, tir.FloatImm):
        return None if value.value else _Read(None, tir.const(False))
    cases = cases_of(value)
    if cases is None:
        return None
    condition, *branches = cases
    first, second = (_read(branch, bodies, analyzer) for branch in branches)
    if first is None or second is None:
        return None
    inside = tir.any(tir.all(condition, first.inside), tir.all(tir.Not(condition), second.inside))
    if first.load is None or second.load is None:
        return _Read(second.load if first.load is None else first.load, inside)
    if not first.load.buffer.same_as(second.load.buffer):
        return None
    pairs = zip(first.load.indices, second.load.indices, strict=True)
    indices = [
        one if tvm.ir.structural_equal(one, other) else tir.Select(condition, one, other)
        for one, other in pairs
    ]
    return _Read(tir.BufferLoad(first.load.buffer, indices), inside)


def _written(value: Any, bodies: dict[Any, Any], analyzer: Any) -> Any:
    """Return a value with the stages before it written in its place, as far as they are loads."""
    while isinstance(value, (tir.BufferLoad, tir.Cast)):
        load = value.value if isinstance(value, tir.Cast) else value
        if not isinstance(load, tir.BufferLoad) or load.buffer.data not in bodies:
            return value
        block = bodies[load.buffer.data]
        # The stage of a number has a loop of one step, and no index.
        variables = [it.var for it in block.iter_vars][: len(load.indices)]
        at = {
            var: _cast(index, var.dtype) for var, index in zip(variables, load.indices, strict=True)
        }
        written = tir.stmt_functor.substitute(block.body.value, at)
        value = analyzer.simplify(_cast(written, value.dtype))
    return value


def _cast(index: Any, dtype: str) -> Any:
    return index if index.dtype == dtype else tir.Cast(dtype, index)
