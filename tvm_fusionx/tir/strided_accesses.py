"""A box of a stage's places as straight lines: every load and the store move by fixed steps.

Reshapes and transpositions leave divisions and remainders in a place. Where what they divide by
divides the axis too, the axis is two, and no division is left:

    x[w % 3, w // 3]    w in 0..299    is    x[a, p]    p in 0..99, a in 0..2

Axes that move together are then one again: rows and columns of a plane are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import Iter, loads_of
from tvm_fusionx.tir.concat_boxes import Box, range_of
from tvm_fusionx.tir.flat_access import flat_place
from tvm_fusionx.tir.index_maps import variables_of

# An axis is split so often at most; reshapes of the zoo's models need two.
MOST_SPLITS = 8

# Places are counted in 32 bits, one of them a sign.
MOST_ELEMENTS = (1 << 31) - 1


@dataclass(frozen=True)
class Line:
    """Where an access is: a place in memory, and by how many elements it moves with each axis."""

    buffer: Any
    """Of one axis, the memory of the tensor."""
    start: int
    steps: tuple[int, ...]

    def at(self, indices: Sequence[Any]) -> Any:
        """Return the place at `indices`, one for each axis."""
        moved = (step * index for step, index in zip(self.steps, indices, strict=True) if step)
        return sum(moved, start=tir.const(self.start, "int32"))


@dataclass(frozen=True)
class Copy:
    """What is stored with every step of the axes: once for each place along those left whole."""

    value: Any
    """Its loads are of the buffers of `loads`, at the number of the load among them."""
    loads: tuple[Line, ...]
    store: Line


@dataclass(frozen=True)
class StraightBox:
    """A box in axes of its own."""

    extents: tuple[int, ...]
    """Of the axes, innermost last; none is 1."""
    copies: tuple[Copy, ...]


def straighten(store: Any, iters: Sequence[Iter], box: Box, whole: int) -> StraightBox | str:
    """Return a box of a stage as straight lines, or why it is none.

    Parameters
    ----------
    store
        What the stage does, a ``tir.BufferStore``.
    whole
        How many of the innermost axes are written out, place by place.
    """
    outer = len(iters) - whole
    axes = [
        (tir.Var(it.var.name, it.var.dtype), extent)
        for it, extent in zip(iters[:outer], box.extents, strict=False)
    ]
    analyzer = tvm.arith.Analyzer()
    for var, extent in axes:
        analyzer.bind(var, range_of(var, extent))
    moved = {
        it.var: var + tir.const(start, var.dtype)
        for it, (var, _), start in zip(iters, axes, box.starts, strict=False)
    }
    stored: list[tuple[Any, Any, list[tuple[Any, Any]]]] = []
    for place in range(math.prod(box.extents[outer:])):
        at = moved | _indices_of(place, iters[outer:], box.starts[outer:], box.extents[outer:])
        value = _rounded_down(tir.stmt_functor.substitute(store.value, at), analyzer)
        value = analyzer.simplify(value)
        target = [tir.stmt_functor.substitute(index, at) for index in store.indices]
        loads: list[tuple[Any, Any]] = []
        value = _numbered(value, loads)
        why_not = _why_not_a_line(value, {var for var, _ in axes}, loads, store.buffer)
        if why_not is not None:
            return why_not
        written = flat_place(tir.BufferLoad(store.buffer, target))
        stored.append((value, analyzer.simplify(written), loads))
    places = [place for _, written, loads in stored for place in (written, *(p for _, p in loads))]
    split = _split(axes, places)
    if isinstance(split, str):
        return split
    axes, places = split
    lines = _lines(places, axes)
    if lines is None:
        return "its places move by steps that change"
    extents, steps = _joined([extent for _, extent in axes], [steps for _, steps in lines])
    buffers: dict[Any, Any] = {}

    def line(buffer: Any, number: int) -> Line:
        flat = buffers.setdefault(buffer.data, _flat(buffer))
        return Line(flat, lines[number][0], steps[number])

    copies, number = [], 0
    for value, _, loads in stored:
        read = tuple(line(buffer, number + 1 + each) for each, (buffer, _) in enumerate(loads))
        copies.append(Copy(value, read, line(store.buffer, number)))
        number += 1 + len(loads)
    return StraightBox(tuple(extents), tuple(copies))


def _indices_of(
    place: int, iters: Sequence[Iter], starts: Sequence[int], extents: Sequence[int]
) -> dict[Any, Any]:
    found = {}
    for it, start, extent in reversed(list(zip(iters, starts, extents, strict=True))):
        place, index = divmod(place, extent)
        found[it.var] = tir.const(start + index, it.var.dtype)
    return found


def _rounded_down(value: Any, analyzer: Any) -> Any:
    """Return `value` with divisions that round down, where towards zero is the same."""

    def rounded(node: Any) -> Any:
        if not str(node.dtype).startswith("int"):
            return None
        if not (analyzer.can_prove(node.a >= 0) and analyzer.can_prove(node.b > 0)):
            return None
        kind = tir.FloorDiv if isinstance(node, tir.Div) else tir.FloorMod
        return kind(node.a, node.b)

    stmt = tir.Evaluate(value)
    return tir.stmt_functor.ir_transform(stmt, None, rounded, ["tir.Div", "tir.Mod"]).value


def _numbered(value: Any, loads: list[tuple[Any, Any]]) -> Any:
    """Return `value` with its loads at their numbers, and put buffer and place of each in `loads`.

    Loads of loaded places stay as they are.
    """

    def numbered(load: Any) -> Any:
        if any(loads_of(index) for index in load.indices):
            return load
        loads.append((load.buffer, flat_place(load)))
        return tir.BufferLoad(_flat(load.buffer), [tir.const(len(loads) - 1, "int32")])

    done = tir.stmt_functor.ir_transform(tir.Evaluate(value), None, numbered, ["tir.BufferLoad"])
    return done.value


def _why_not_a_line(
    value: Any, variables: set[Any], loads: list[tuple[Any, Any]], result: Any
) -> str | None:
    if len(loads_of(value)) != len(loads):
        return "it reads where numbers tell it to"
    if variables & variables_of(value):
        return "it computes with its place, or tests it"
    if any(_size(buffer) > MOST_ELEMENTS for buffer in (result, *(buffer for buffer, _ in loads))):
        return "it has more elements than 32 bits count"
    return None


def _size(buffer: Any) -> int:
    return math.prod(int(extent) for extent in buffer.shape)


def _flat(buffer: Any) -> Any:
    return tir.decl_buffer([_size(buffer)], buffer.dtype, buffer.name, data=buffer.data)


def _split(
    axes: list[tuple[Any, int]], places: list[Any]
) -> tuple[list[tuple[Any, int]], list[Any]] | str:
    """Split axes until no place divides any; return them and the places in them."""
    for _ in range(MOST_SPLITS):
        found = _divisor(axes, places)
        if found is None:
            return axes, places
        position, divisor = found
        var, extent = axes[position]
        if extent % divisor or divisor == extent:
            return f"{divisor} does not divide its {extent} places"
        outer, inner = (tir.Var(f"{var.name}_{name}", var.dtype) for name in ("outer", "inner"))
        halves = [(outer, extent // divisor), (inner, divisor)]
        axes = [*axes[:position], *halves, *axes[position + 1 :]]
        analyzer = tvm.arith.Analyzer()
        for each, size in axes:
            analyzer.bind(each, range_of(each, size))
        both = {var: outer * tir.const(divisor, var.dtype) + inner}
        places = [
            analyzer.canonical_simplify(analyzer.simplify(tir.stmt_functor.substitute(place, both)))
            for place in places
        ]
    return "its places are divided too often"


def _divisor(axes: list[tuple[Any, int]], places: list[Any]) -> tuple[int, int] | None:
    """Return an axis that is divided as it is, and the least number it is divided by."""
    found: set[tuple[int, int]] = set()
    positions = {var: position for position, (var, _) in enumerate(axes)}

    def visit(node: Any) -> None:
        if (
            isinstance(node, tir.FloorDiv | tir.FloorMod)
            and isinstance(node.a, tir.Var)
            and isinstance(node.b, tir.IntImm)
        ):
            found.add((int(node.b), positions[node.a]))

    for place in places:
        tir.stmt_functor.post_order_visit(place, visit)
    if not found:
        return None
    divisor, position = min(found)
    return position, divisor


def _lines(
    places: list[Any], axes: list[tuple[Any, int]]
) -> list[tuple[int, tuple[int, ...]]] | None:
    """Return start and steps of each place; None where one is no straight line."""
    variables = [var for var, _ in axes]
    found = []
    for place in places:
        if isinstance(place, int | tir.IntImm):
            found.append((int(place), (0,) * len(axes)))
            continue
        linear = tvm.arith.detect_linear_equation(place, variables) if variables else []
        if not linear or not all(isinstance(each, tir.IntImm) for each in linear):
            return None
        *steps, start = (int(each) for each in linear)
        found.append((start, tuple(steps)))
    return found


def _joined(
    extents: list[int], steps: list[tuple[int, ...]]
) -> tuple[list[int], list[tuple[int, ...]]]:
    """Join neighbouring axes with which all places move as with one, and drop those of one step."""
    kept: list[tuple[int, list[int]]] = []
    for position, extent in enumerate(extents):
        column = [each[position] for each in steps]
        if extent == 1:
            continue
        if kept and kept[-1][1] == [extent * step for step in column]:
            kept[-1] = (kept[-1][0] * extent, column)
        else:
            kept.append((extent, column))
    columns = [column for _, column in kept]
    rows = [tuple(column[number] for column in columns) for number in range(len(steps))]
    return [extent for extent, _ in kept], rows
