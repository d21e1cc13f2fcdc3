"""Operands in half precision that are multiplied so often that they are converted once, before.

A tile of a product broadcasts an element of its rows for each tile of columns. From memory of
float32 that is a part of the multiply-add; a half is loaded, converted and then broadcast, three
instructions. A stage that converts all of them, as vectors, costs one for each vector. So it is
with the pixels of a pointwise convolution, which each tile of output channels reads anew (a task
gathers what a stage before it computes), and with the image of a first layer.
"""

from __future__ import annotations

import math
from typing import Any

from tvm_fusionx.schedules.windows.first_layer import find_image_window
from tvm_fusionx.schedules.windows.structure import find_window
from tvm_fusionx.tir.block import BlockInfo, Stage
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
    buffers = {
        number: single.func.buffer_map[single.func.params[number]] for number in single.stored
    }
    if any(stage.sums_matrices for stage in info.stages.values()):
        # An instruction takes them as they lie.
        return frozenset()
    window = _read_by_window(info)
    if window is not None:
        # Its weights lie as its kernel reads them, and are no result of a stage.
        stage, data = window
        least = _LEAST_USES_BY_LANE if info.cpu.multiplies_by_lane else _LEAST_USES
        return frozenset(
            number
            for number, buffer in buffers.items()
            if buffer.data.same_as(data.data) and stage.points >= least * _elements(buffer)
        )
    return frozenset(
        number
        for number, buffer in buffers.items()
        for stage in info.stages.values()
        if stage.is_dot
        and any(each.data.same_as(buffer.data) for each in stage.reads)
        and stage.points >= _LEAST_USES * _elements(buffer)
    )


def _read_by_window(info: BlockInfo) -> tuple[Stage, Any] | None:
    """Return the stage of a block's window, and the data that it moves over, before padding."""
    image = find_image_window(info)
    if not isinstance(image, str):
        return image.window.stage, image.data
    window = find_window(info)
    return None if isinstance(window, str) else (window.stage, window.data)


def _elements(buffer: Any) -> int:
    return math.prod(int(extent) for extent in buffer.shape)
