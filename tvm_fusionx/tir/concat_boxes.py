"""Where the pieces of a joint meet: boxes of a stage's places in which no test is left to make.

A concatenation asks for each element from which of its operands it comes, a pad whether there is
one. Such a test compares one axis with a constant, so it has one answer on either side of that:

    if_then_else(4 <= i, b[i - 4], a[i])    i in 0..9    is    a[i] in 0..3,  b[i - 4] in 4..9
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import Iter, loads_of
from tvm_fusionx.tir.index_maps import variables_of

_COMPARISONS = tir.LT | tir.LE | tir.GT | tir.GE | tir.EQ | tir.NE


@dataclass(frozen=True)
class Box:
    """A part of an iteration space: along each axis, where it starts and how long it is."""

    starts: tuple[int, ...]
    extents: tuple[int, ...]


def cut_at_joints(value: Any, iters: Sequence[Iter], whole: Collection[int] = ()) -> list[Box]:
    """Return the boxes between the joints of `value`, in the order of their places.

    Parameters
    ----------
    value
        What a stage stores.
    iters
        The axes of the stage.
    whole
        Positions of axes that are not cut.
    """
    cuts: dict[Any, set[int]] = {it.var: set() for it in iters}
    analyzer = tvm.arith.Analyzer()
    for it in iters:
        analyzer.bind(it.var, range_of(it.var, it.extent))
    for compared in _comparisons_of(value):
        for var, places in _places_of(analyzer, compared):
            cuts[var] |= places
    runs = []
    for position, it in enumerate(iters):
        inner = () if position in whole else cuts[it.var]
        ends = [0, *sorted(at for at in inner if 0 < at < it.extent), it.extent]
        runs.append([(first, end - first) for first, end in itertools.pairwise(ends)])
    return [
        Box(tuple(start for start, _ in run), tuple(extent for _, extent in run))
        for run in itertools.product(*runs)
    ]


def range_of(var: Any, extent: int) -> Any:
    """Return the places of an axis, in the type of its variable."""
    return tvm.ir.Range(tir.const(0, var.dtype), tir.const(extent, var.dtype))


def _comparisons_of(value: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, _COMPARISONS) and not loads_of(node):
            found.append(node)

    tir.stmt_functor.post_order_visit(value, visit)
    return found


def _places_of(analyzer: Any, compared: Any) -> list[tuple[Any, set[int]]]:
    """Return the axis whose places a comparison tells apart, and where one kind of them begins."""
    low, high = compared.a, compared.b
    if not str(low.dtype).startswith("int"):
        return []
    if isinstance(compared, tir.GT | tir.GE):
        low, high = high, low
    # Each asks whether a number is below zero, or whether it is zero.
    number = analyzer.simplify(low - high - (1 if isinstance(compared, tir.LE | tir.GE) else 0))
    variables = list(variables_of(number))
    if len(variables) != 1:
        return []
    linear = tvm.arith.detect_linear_equation(number, variables)
    if not linear or not all(isinstance(each, tir.IntImm) for each in linear):
        return []
    step, start = (int(each) for each in linear)
    if abs(step) != 1:
        return []
    zero = -start * step
    if isinstance(compared, tir.EQ | tir.NE):
        return [(variables[0], {zero, zero + 1})]
    return [(variables[0], {zero if step > 0 else zero + 1})]
