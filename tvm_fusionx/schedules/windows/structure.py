"""What a blocked convolution or pooling looks like inside a fused block.

Blocked means NCHWc: channels are cut into chunks of ``c``, and the ``c`` channels of a chunk are
the innermost axis, so that a vector register holds them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.tir.block import BlockInfo, Stage, loads_of
from tvm_fusionx.tir.index_maps import coefficients
from tvm_fusionx.tir.stored_types import NARROW
from tvm_fusionx.tir.widening import Widening

# Axes of every NCHWc tensor: batch, channel chunk, row, column, channel within the chunk.
BLOCKED_AXES = 5

# Axes of the weights of NCHWc convolutions: OIHWio, and OIHWiod for integers in groups of d.
WEIGHT_AXES = (6, 7)


@dataclass(frozen=True)
class Window:
    """A stage that reduces a moving window over NCHWc data: a convolution or a pooling."""

    stage: Stage
    out_shape: tuple[int, ...]
    """Extents n, channel chunks, rows, columns, channels of a chunk."""
    kernel: tuple[int, int]
    """Rows and columns of the window."""
    stride: tuple[int, int]
    dilation: tuple[int, int]
    in_channels: int
    """Channels summed over, or groups of them that one instruction multiplies; 1 when each output
    channel reads only its own."""
    block_in: int
    """The same, in a chunk of the data."""
    sums_channels: bool
    """Whether an output channel sums over input channels."""
    data: Any
    """The buffer the window moves over."""

    @property
    def dtype(self) -> str:
        """Data type of the sums, which that of the data or of the block's result need not be."""
        return str(self.stage.writes[0].dtype)

    @property
    def weights(self) -> Any | None:
        """The other buffer that is read; None where elements are not multiplied."""
        others = (each for each in self.stage.reads if not each.data.same_as(self.data.data))
        return next(others, None)

    @property
    def rows(self) -> int:
        """Output rows."""
        return self.out_shape[2]

    @property
    def columns(self) -> int:
        """Output columns."""
        return self.out_shape[3]

    @property
    def out_blocks(self) -> int:
        """Output channel chunks."""
        return self.out_shape[1]

    @property
    def block_out(self) -> int:
        """Channels of one output chunk."""
        return self.out_shape[4]

    def registers(self, cpu: Cpu) -> int:
        """Return how many chunks the registers hold: one of 12 channels takes two of 8 lanes."""
        return chunks_held(self.block_out, cpu)

    @property
    def batch(self) -> int:
        """Images."""
        return self.out_shape[0]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole stage."""
        return math.prod(self.out_shape) * self.in_channels * self.kernel[0] * self.kernel[1]

    def rows_read(self, rows: int) -> int:
        """Return the input rows under `rows` consecutive output rows."""
        return (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1

    def columns_read(self, columns: int) -> int:
        """Return the input columns under `columns` consecutive output columns."""
        return (columns - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1


@dataclass(frozen=True)
class PaddedWindow:
    """A window over data that is padded before it, and nothing else."""

    window: Window

    data: Any
    """The buffer ``[N, C / c, H, W, c]``, before it is padded."""

    padding: tuple[int, int]
    """Rows above the data, columns to its left."""

    pad: str | None
    """Name of the stage that pads, if there is one."""

    widening: Widening | None = None
    """What is made of each element of the data before it is padded, if anything is."""


def chunks_held(channels: int, cpu: Cpu) -> int:
    """Return how many chunks of so many channels the registers hold."""
    return cpu.registers // math.ceil(channels / cpu.lanes)


def find_window(info: BlockInfo) -> Window | str:
    """Return the block's only reduction as a window over NCHWc data, or why it is not one."""
    if len(info.reductions) != 1:
        return f"it has {len(info.reductions)} reductions, not one"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    return window_of(info.reductions[0])


def window_of(stage: Stage) -> Window | str:
    """Return a reduction as a window over NCHWc data, or why it is not one."""
    spatial = [it for it in stage.iters if not it.is_reduction]
    reduced = [it for it in stage.iters if it.is_reduction]
    if len(spatial) != BLOCKED_AXES or len(reduced) not in (2, 3):
        return "its reduction has not the axes of a blocked convolution"
    store = stage.block.body
    if not isinstance(store, tir.BufferStore) or not _is_identity(store.indices, spatial):
        return "its reduction does not write its axes in order"
    loads = [load for load in loads_of(store.value) if not load.buffer.same_as(store.buffer)]
    data = [load for load in loads if len(load.indices) == BLOCKED_AXES]
    # An instruction for integers reads a group of neighbours: the first tells where.
    depth = len(data) if stage.sums_integers else 1
    if len(data) != depth or any(
        len(load.indices) not in WEIGHT_AXES for load in loads if load not in data
    ):
        return "its reduction does not read one blocked tensor"
    return _window(stage, spatial, reduced, data[0], depth)


def _window(
    stage: Stage, spatial: list[Any], reduced: list[Any], load: Any, depth: int
) -> Window | str:
    rows = coefficients(load.indices[2], spatial[2].var, reduced[-2].var)
    columns = coefficients(load.indices[3], spatial[3].var, reduced[-1].var)
    if rows is None or columns is None:
        return "its window does not move by constant steps"
    return Window(
        stage=stage,
        out_shape=tuple(it.extent for it in spatial),
        kernel=(reduced[-2].extent, reduced[-1].extent),
        stride=(rows[0], columns[0]),
        dilation=(rows[1], columns[1]),
        in_channels=reduced[0].extent if len(reduced) > 2 else 1,
        block_in=int(load.buffer.shape[-1]) // depth,
        sums_channels=len(reduced) > 2,
        data=load.buffer,
    )


def _is_identity(indices: Any, iters: list[Any]) -> bool:
    return len(indices) == len(iters) and all(
        index.same_as(it.var) or (it.extent == 1 and isinstance(index, tir.IntImm))
        for index, it in zip(indices, iters, strict=True)
    )


# Rows and columns among the axes of NCHWc data.
PIXEL_AXES = (2, 3)


def padded_by_zeros(block: Any) -> tuple[Any, tuple[int, int]] | None:
    """Return the buffer that a block pads by zeros, and the rows and columns before it."""
    padded = padded_by(block)
    if padded is None or padded[2] != 0:
        return None
    return padded[0], padded[1]


def padded_by(block: Any) -> tuple[Any, tuple[int, int], float] | None:
    """Return the buffer that a block pads, the rows and columns before it, and by what."""
    value = block.body.value
    if not (isinstance(value, tir.Call) and value.op.name == "tir.if_then_else"):
        return None
    _, load, otherwise = value.args
    if not isinstance(load, tir.BufferLoad) or len(load.indices) != BLOCKED_AXES:
        return None
    if not isinstance(otherwise, tir.FloatImm | tir.IntImm):
        return None
    widths = []
    for axis, (index, it) in enumerate(zip(load.indices, block.iter_vars, strict=True)):
        moved = coefficients(index, it.var)
        if moved is None or moved[0] != 1:
            return None
        widths.append(-moved[1])
        if axis not in PIXEL_AXES and moved[1]:
            return None
    return load.buffer, (widths[2], widths[3]), float(otherwise.value)


def converting_stages(info: BlockInfo) -> set[str]:
    """Return the stages that make float32 of halves, and nothing else: they are loops apart."""
    return {
        name
        for name, stage in info.stages.items()
        if isinstance(stage.block.body, tir.BufferStore)
        and isinstance(stage.block.body.value, tir.Cast)
        and isinstance(stage.block.body.value.value, tir.BufferLoad)
        and stage.block.body.value.value.dtype in NARROW
    }


def find_padded_window(info: BlockInfo) -> PaddedWindow | str:
    """Return the block's only window over data that is only padded before it, or why it has none.

    Windows that keep channels apart, and that sum another type than they multiply, are not found.
    """
    window = find_window(info)
    if isinstance(window, str):
        return window
    if not window.stage.is_dot or not window.sums_channels:
        return "it sums no channels"
    if window.stage.sums_integers:
        return "it sums integers"
    if not window.stage.is_plain_dot:
        return "it sums products of another type than its own"
    if window.in_channels != int(window.data.shape[1]) * window.block_in:
        return "its channels are in groups"
    if window.kernel == (1, 1):
        return "its window is one pixel"
    before = info.upstream(window.stage.name) - converting_stages(info)
    if not before:
        return PaddedWindow(window, window.data, (0, 0), None)
    if len(before) > 1 or info.stages[next(iter(before))].writes[0].data != window.data.data:
        return "something is computed before it"
    (pad,) = before
    padded = padded_by_zeros(info.stages[pad].block)
    if padded is None:
        return "what is before it is no padding by zeros"
    return PaddedWindow(window, *padded, pad)
