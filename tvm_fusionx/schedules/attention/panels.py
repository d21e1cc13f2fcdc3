"""The operands of an attention, copied once a task to where its products read them in order.

What is computed before the products is computed here, once an element. What a last vector holds
beyond the operand is zero: it is multiplied as well, and never read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.attention.structure import Element, Softmax
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp
from tvm_fusionx.tir.block import loads_of
from tvm_fusionx.tir.index_maps import is_contiguous_along, variables_of

DTYPE = "float32"

# Where an element goes: takes its outer and its inner place.
Place = Callable[[Any, Any], Any]


class PanelCopies:
    """Copies the operands of one head.

    Parameters
    ----------
    ib
        Builder of the kernel.
    softmax
        What is computed.
    head
        Number of the head.
    lanes
        Elements of a vector.
    """

    def __init__(self, ib: Any, softmax: Softmax, head: Any, lanes: int) -> None:
        self.ib, self.softmax, self.head, self.lanes = ib, softmax, head, lanes

    def copy(self, element: Element, target: Any, place: Place, outer: Any, inner: int) -> None:
        """Copy ``element(outer, inner)`` to ``target[place(outer, inner)]``, vectors of `inner`."""
        ib, lanes = self.ib, self.lanes
        whole = inner // lanes
        with ib.for_range(0, outer, "outer") as at:
            if whole:
                with ib.for_range(0, whole, "vector") as vector:
                    lane = tir.Var("lane", "int32")
                    position = vector * lanes + lane
                    stmt = tir.BufferStore(
                        target, element(self.head, at, position), [place(at, position)]
                    )
                    ib.emit(tir.For(lane, 0, lanes, tir.ForKind.VECTORIZED, stmt))
            if inner % lanes:
                with ib.for_range(0, inner % lanes, "rest") as rest:
                    position = whole * lanes + rest
                    self._set(target, place(at, position), element(self.head, at, position))

    def copy_keys(self, target: Any, panel: int) -> None:
        """Copy the keys to ``[keys / panel][depth][panel]``."""
        softmax = self.softmax
        keys, depth = softmax.columns, softmax.depth
        if keys % self.lanes:
            beyond = keys // panel * panel * depth + keys % panel // self.lanes * self.lanes
            with self.ib.for_range(0, depth, "depth") as at:
                self._clear(target, beyond + at * panel)

        def place(key: Any, at: Any) -> Any:
            return (
                tir.floordiv(key, panel) * (depth * panel) + at * panel + tir.floormod(key, panel)
            )

        if _is_contiguous(softmax.key):
            self._copy_singly(softmax.key, target, place, keys, depth)
            return
        self.copy(
            lambda head, at, key: softmax.key(head, key, at),
            target,
            lambda at, key: place(key, at),
            depth,
            keys,
        )

    def copy_values(self, target: Any, panel: int) -> None:
        """Copy the values to ``[width / panel][keys][panel]``."""
        softmax = self.softmax
        keys, width = softmax.columns, softmax.width
        if width % panel:
            last = width // panel * (keys * panel)
            with self.ib.for_range(0, keys * panel // self.lanes, "rest") as rest:
                self._clear(target, last + rest * self.lanes)

        def place(key: Any, column: Any) -> Any:
            panels = tir.floordiv(column, panel) * (keys * panel)
            return panels + key * panel + tir.floormod(column, panel)

        if _is_contiguous(softmax.value):
            self.copy(softmax.value, target, place, keys, width)
        else:
            self._copy_singly(softmax.value, target, place, keys, width)

    def _copy_singly(
        self, element: Element, target: Any, place: Place, outer: int, inner: int
    ) -> None:
        with (
            self.ib.for_range(0, outer, "outer") as at,
            self.ib.for_range(0, inner, "inner") as position,
        ):
            self._set(target, place(at, position), element(self.head, at, position))

    def _set(self, target: Any, at: Any, value: Any) -> None:
        self.ib.emit(tir.BufferStore(target, value, [at]))

    def _clear(self, target: Any, start: Any) -> None:
        zeros = broadcast(tir.const(0, DTYPE), self.lanes)
        self.ib.emit(tir.BufferStore(target, zeros, [ramp(start, self.lanes)]))


def _is_contiguous(element: Element) -> bool:
    """Tell whether neighbours along the last place of an operand are neighbours in memory."""
    head, position, inner = (tir.Var(name, "int64") for name in ("head", "position", "inner"))
    return all(
        is_contiguous_along(load, inner)
        for load in loads_of(element(head, position, inner))
        if any(inner in variables_of(index) for index in load.indices)
    )
