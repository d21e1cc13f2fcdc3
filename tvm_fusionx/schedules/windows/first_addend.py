"""What is added to a window's sums, of each channel alone, begins them in the place of zero.

A sum begins with a zero in a register, and a bias is added behind it: two instructions a vector.
Where the bias begins the sum it is one. Sums then add it first and not last, and round so.

    s = 0;  s += x[k] * w[k];  y = max(s + b, 0)   ->   s = b;  s += x[k] * w[k];  y = max(s, 0)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.tir.index_maps import variables_of

# Places of channel chunk and channel of a chunk among the axes of a window.
CHUNK_AXIS, LANE_AXIS = 1, 4


@dataclass(frozen=True)
class FirstAddend:
    """One number for each channel, in memory channel beside channel."""

    element: Any
    """Loads it, in the axes of the block that was found to add it."""
    chunk: Any
    """The axis of channel chunks."""

    def vector(self, chunk: Any, lanes: int) -> Any:
        """Return those of a whole chunk of `lanes` channels."""
        *outer, _ = self.element.indices
        # Of other axes only those of one place are read by.
        at = {var: tir.const(0, var.dtype) for each in outer for var in variables_of(each)}
        at[self.chunk] = tir.Cast(self.chunk.dtype, chunk)
        places = [tir.stmt_functor.substitute(each, at) for each in outer]
        return tir.BufferLoad(self.element.buffer, [*places, ramp(0, lanes)])


def take_first_addend(block: Any, sums: Collection[Any]) -> tuple[Any, FirstAddend | None]:
    """Return `block` without what it adds to a window's sums first, and that; or as it is, None.

    Parameters
    ----------
    block
        What follows the window, in the window's axes.
    sums
        Variables of the buffers that hold the window's sums.
    """
    store = block.body
    if not isinstance(store, tir.BufferStore):
        return block, None
    found: list[Any] = []
    uses: list[Any] = []

    def is_sum(node: Any) -> bool:
        return isinstance(node, tir.BufferLoad) and node.buffer.data in sums

    def taken(node: Any) -> Any:
        if isinstance(node, tir.BufferLoad):
            if is_sum(node):
                uses.append(node)
            return None
        for total, addend in ((node.a, node.b), (node.b, node.a)):
            if is_sum(total) and _is_of_channels(addend, block, total.dtype):
                found.append(addend)
                return total
        return None

    names = ["tir.Add", "tir.BufferLoad"]
    value = tir.stmt_functor.ir_transform(tir.Evaluate(store.value), None, taken, names).value
    is_one = all(tvm.ir.structural_equal(each, found[0]) for each in found)
    if not found or not is_one or len(uses) != len(found):
        return block, None
    body = tir.BufferStore(store.buffer, value, store.indices)
    parts = block.iter_vars, block.reads, block.writes, block.name_hint
    return tir.Block(*parts, body, block.init), FirstAddend(
        found[0], block.iter_vars[CHUNK_AXIS].var
    )


def begin_with_addend(func: Any, reduce: str, write: str) -> Any:
    """Return an unscheduled `func` whose sums of integers begin with what is subtracted from them.

    They are as they were where nothing of each channel alone is.

    Parameters
    ----------
    func
        A stage that sums over a window, and one that reads its sums in the window's axes.
    reduce, write
        Names of their blocks.
    """
    blocks: dict[str, Any] = {}

    def visit(node: Any) -> None:
        if isinstance(node, tir.Block):
            blocks[node.name_hint] = node

    tir.stmt_functor.post_order_visit(func.body, visit)
    summed = blocks[reduce]
    sums = {region.buffer.data for region in summed.writes}
    differences = _with_sums_for_differences(blocks[write], sums)
    if differences is None:
        return func
    after, addend = take_first_addend(differences, sums)
    if addend is None or not isinstance(summed.init, tir.BufferStore):
        return func
    places = {
        there.var: here.var
        for there, here in zip(blocks[write].iter_vars, summed.iter_vars, strict=False)
    }
    element = tir.stmt_functor.substitute(addend.element, places)
    less = tir.const(0, element.dtype) - element
    start = tir.BufferStore(summed.init.buffer, less, summed.init.indices)
    region = [tvm.ir.Range.from_min_extent(index, 1) for index in element.indices]
    reads = [*summed.reads, tir.BufferRegion(element.buffer, region)]
    begun = tir.Block(summed.iter_vars, reads, summed.writes, reduce, summed.body, start)
    changed = {reduce: begun, write: after}

    def replaced(node: Any) -> Any:
        return changed.get(node.name_hint)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, replaced, ["tir.Block"]))


def _with_sums_for_differences(block: Any, sums: Collection[Any]) -> Any | None:
    """Return a block that adds what it subtracts from a window's sums; None where it adds some."""

    def added(node: Any) -> Any:
        is_sum = isinstance(node.a, tir.BufferLoad) and node.a.buffer.data in sums
        return node.a + node.b if is_sum and isinstance(node, tir.Sub) else None

    def is_added(node: Any) -> bool:
        return isinstance(node, tir.Add) and any(
            isinstance(each, tir.BufferLoad) and each.buffer.data in sums
            for each in (node.a, node.b)
        )

    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        block.body, lambda node: found.append(node) if is_added(node) else None
    )
    if found:
        return None
    body = tir.stmt_functor.ir_transform(block.body, None, added, ["tir.Sub"])
    parts = block.iter_vars, block.reads, block.writes, block.name_hint
    return tir.Block(*parts, body, block.init)


def _is_of_channels(addend: Any, block: Any, dtype: str) -> bool:
    """Tell whether an addend is loaded from where one lies for each channel, side by side."""
    if not isinstance(addend, tir.BufferLoad) or addend.dtype != dtype:
        return False
    chunk, lane = (block.iter_vars[axis].var for axis in (CHUNK_AXIS, LANE_AXIS))
    *outer, last = addend.indices
    single = {it.var for it in block.iter_vars if _is_one(it.dom.extent)}
    outer_variables = {var for index in outer for var in variables_of(index)}
    return bool(last.same_as(lane)) and outer_variables - single <= {chunk}


def _is_one(extent: Any) -> bool:
    return isinstance(extent, tir.IntImm) and int(extent) == 1
