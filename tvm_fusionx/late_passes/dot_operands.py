"""The operands of a dot product as the vectors that an instruction multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tir


def side_by_side(elements: Sequence[Any], lanes: int) -> Any | None:
    """Return elements of each lane, one lane after the other, as one vector; None if they are not.

    They have to lie side by side in memory, those of neighbouring lanes too unless all lanes have
    the same ones.
    """
    are_shared = all(isinstance(each, tir.Broadcast) for each in elements)
    loads = [each.value if are_shared else each for each in elements]
    if not all(
        isinstance(load, tir.BufferLoad) and load.buffer.same_as(loads[0].buffer) for load in loads
    ):
        return None
    starts = [load.indices[-1] for load in loads]
    depth = len(loads)
    if not are_shared:
        if not all(
            isinstance(start, tir.Ramp)
            and isinstance(start.stride, tir.IntImm)
            and int(start.stride) == depth
            for start in starts
        ):
            return None
        starts = [start.base for start in starts]
    analyzer = tvm.arith.Analyzer()
    if any(
        not analyzer.can_prove_equal(start - starts[0], offset)
        for offset, start in enumerate(starts)
    ):
        return None
    if not are_shared:
        ramp = tir.Ramp(starts[0], 1, depth * lanes)
        return tir.BufferLoad(loads[0].buffer, [*loads[0].indices[:-1], ramp])
    ramp = tir.Ramp(starts[0], 1, depth)
    few = tir.BufferLoad(loads[0].buffer, [*loads[0].indices[:-1], ramp])
    bits = depth * tvm.DataType(loads[0].buffer.dtype).bits
    word = tir.call_intrin(f"int{bits}", "tir.reinterpret", few)
    whole = f"{loads[0].buffer.dtype}x{depth * lanes}"
    return tir.call_intrin(whole, "tir.reinterpret", tir.Broadcast(word, lanes))
