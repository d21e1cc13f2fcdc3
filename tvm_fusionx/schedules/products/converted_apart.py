"""Operands in half precision that a product reads so often that they are converted once, before.

A tile of a product broadcasts an element of its rows for each tile of columns. From memory of
float32 that is a part of the multiply-add; a half is loaded, converted and then broadcast, three
instructions. A stage that converts all of them, as vectors, costs one for each vector.
"""

from __future__ import annotations

import math

from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.stored_types import SingleBlock

# Uses of each element from which on the stage is worth its pass over the operand.
_LEAST_USES = 32


def converted_apart(single: SingleBlock, info: BlockInfo) -> frozenset[int]:
    """Return the numbers of the parameters that a stage of its own should convert.

    Parameters
    ----------
    single
        The block as if all of its tensors were float32.
    info
        Of its function.
    """
    found = set()
    for number in single.stored:
        buffer = single.func.buffer_map[single.func.params[number]]
        elements = math.prod(int(extent) for extent in buffer.shape)
        for stage in info.stages.values():
            reads = any(each.data.same_as(buffer.data) for each in stage.reads)
            if stage.is_dot and reads and stage.points >= _LEAST_USES * elements:
                found.add(number)
    return frozenset(found)
