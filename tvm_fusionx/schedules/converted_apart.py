"""Operands in half precision that are multiplied so often that they are converted once, before.

A tile of a product broadcasts an element of its rows for each tile of columns. From memory of
float32 that is a part of the multiply-add; a half is loaded, converted and then broadcast, three
instructions. A stage that converts all of them, as vectors, costs one for each vector. So it is
with the pixels of a pointwise convolution: each tile of output channels reads them anew, and a task
gathers what a stage before it computes.
"""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.structure import find_window
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.stored_types import SingleBlock

# Uses of each element from which on the stage is worth its pass over the operand.
_LEAST_USES = 32

# Where a multiply-add takes an element from a lane, vectors are converted and no elements: one
# instruction for each vector and tile of 16 channels. Gathering a vector takes some two and a half.
_LEAST_USES_BY_LANE = 64


def converted_apart(single: SingleBlock, info: BlockInfo) -> frozenset[int]:
    """Return the numbers of the parameters that a stage of its own should convert.

    Parameters
    ----------
    single
        The block as if all of its tensors were float32.
    info
        Of its function.
    """
    window = find_window(info)
    found = set()
    for number in single.stored:
        buffer = single.func.buffer_map[single.func.params[number]]
        # Weights of a window lie as its kernel reads them, and are no result of a stage.
        if not isinstance(window, str) and not buffer.data.same_as(window.data.data):
            continue
        elements = math.prod(int(extent) for extent in buffer.shape)
        least = _LEAST_USES if isinstance(window, str) else _least_uses_of_pixels(info.cpu)
        for stage in info.stages.values():
            reads = any(each.data.same_as(buffer.data) for each in stage.reads)
            if stage.is_dot and reads and stage.points >= least * elements:
                found.add(number)
    return frozenset(found)


def _least_uses_of_pixels(cpu: Cpu) -> int:
    return _LEAST_USES_BY_LANE if cpu.multiplies_by_lane else _LEAST_USES
