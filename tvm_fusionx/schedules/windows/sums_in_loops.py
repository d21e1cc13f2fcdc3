"""What follows the sums of a register tile, in a loop over them and not written out.

Where exponentials follow, each sum meets some forty instructions and a dozen constants. Written out
for all sums of a tile, LLVM computes several at once beside the sums that wait, and keeps on the
stack what then finds no register: up to ten accesses a vector in a depthwise tile of NEON. So the
sums are put aside, once their products are added, and read again two by two: one store and one load
a vector, the constants stay in registers, and two chains of arithmetic run side by side.

    kept[0..13] = sums;   for pair in range(7):  out[...] = f(kept[2 pair]), f(kept[2 pair + 1])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from tvm import tir

from tvm_fusionx.late_passes.vectorise_mathematics import calls_mathematics
from tvm_fusionx.schedules.parts.hand_written_kernel import Store
from tvm_fusionx.schedules.parts.hidden_numbers import hidden
from tvm_fusionx.schedules.parts.vector_sums import VectorSums

# Of image, chunk, row, column and lane.
WINDOW_AXES = 5

# Fewer sums than this leave registers for all that follows.
FEWEST_SUMS = 4

# Chains of arithmetic side by side: a core that runs in order waits four cycles for each result of
# one; a third finds no registers beside the constants.
TOGETHER = 2


def follows_with_mathematics(write: Store, dtype: str) -> bool:
    """Tell whether `write` computes functions that become long arithmetic.

    Parameters
    ----------
    write
        Called with image, chunk, row, column, lane and the value.
    dtype
        Of the value.
    """
    place = [tir.Var("at", "int32") for _ in range(WINDOW_AXES)]
    return calls_mathematics(write(*place, tir.Var("value", dtype)))


def store_in_loops(
    sums: VectorSums,
    numbers: Sequence[Sequence[int]],
    store: Callable[[VectorSums, Any, Any, Any], None],
) -> None:
    """Put the sums of a tile aside, and store them in loops.

    The kernel has to be wrapped in
    :func:`tvm_fusionx.schedules.parts.hidden_numbers.with_hidden_numbers`: LLVM would write out
    loops whose ends it knows.

    Parameters
    ----------
    sums
        All of them.
    numbers
        Those of the tile by two axes, each row as long as the others.
    store
        Takes the sums that were put aside, the number of one among them, and its place on both
        axes; emits what stores it.
    """
    ib, rows, columns = sums.ib, len(numbers), len(numbers[0])
    kept = VectorSums(ib, rows * columns, sums.lanes, sums.buffer.dtype)
    for row, line in enumerate(numbers):
        for column, number in enumerate(line):
            kept.put(row * columns + column, sums.value(number))

    # Pairs along the axis that they divide; else along the longer one.
    by_rows = columns % TOGETHER != 0 and (rows % TOGETHER == 0 or rows > columns)
    around, along = (columns, rows) if by_rows else (rows, columns)

    def emit(outer: Any, inner: Any) -> None:
        row, column = (inner, outer) if by_rows else (outer, inner)
        store(kept, row * columns + column, row, column)

    with ExitStack() as loops:
        outer = loops.enter_context(_loop(ib, around, "around"))
        with _loop(ib, along // TOGETHER, "pair") as pair:
            for each in range(TOGETHER if along >= TOGETHER else 0):
                emit(outer, pair * TOGETHER + each)
        for rest in range(along // TOGETHER * TOGETHER, along):
            emit(outer, rest)


def _loop(ib: Any, extent: int, name: str) -> Any:
    """Open a loop whose end LLVM does not know; none around what runs once, or never."""
    if extent <= 1:
        return nullcontext(0)
    return ib.for_range(0, hidden(ib, extent, f"{name}s"), name)
