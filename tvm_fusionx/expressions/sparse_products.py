"""Products with weights whose zeros are left out: what they compute, and how Relay knows them.

A weight is stored as :class:`tvm_fusionx.sparse.Storage` tells: for each group of output channels a
list of offsets into the data, and the weights of the group's channels for each. An offset counts
elements from where the window of an output pixel begins,

- in channels where a window is one pixel and no pixel is left out or added, and in rows of a matrix
  ``[M, K]``;
- otherwise in the padded image with rows outermost, ``[rows, C / c, columns, c]``, so that it is
  the same for every part of the image that a kernel gathers; for GPUs in planes,
  ``[rows, C, columns]``, where neighbouring windows read neighbours.

Products of integers are the same in *words*: the neighbouring integers that one instruction
multiplies and adds take the place of a float, an element of the data is such a word, and offsets
count words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relay, te, tir
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.processors.integers import SUM, WORD_BYTES
from tvm_fusionx.tir.dot_call import dot, register_dot

DENSE = "fusionx.sparse_dense"
CONV2D = "fusionx.sparse_conv2d_NCHWc"

# What the stages are called, and the annotation that carries a window's geometry.
STAGE = "sparse_product"
GEOMETRY = "fusionx.sparse"

# In the place of a weight's layout: offsets count elements of planes.
PLANES = "planes"

# Of the values: entries, vectors, lanes times the depth of a word.
VALUE_AXES = 3

FLOAT = "float32"

DENSE_ATTRIBUTES = "relay.attrs.DenseAttrs"
CONV2D_ATTRIBUTES = "relay.attrs.Conv2DAttrs"

_OPERANDS = {"data": "What is multiplied.", "values": "Of each entry.", "index": "Of the lists."}


@dataclass(frozen=True)
class Geometry:
    """Windows over an image in chunks of channels."""

    chunks: int
    height: int
    width: int
    lanes: int
    """Channels of a chunk of the data."""
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, left, bottom, right."""
    planar: bool = False
    """Whether gathered rows lie channel by channel, ``[rows, C, columns]``, and of a channel those
    columns side by side that neighbouring windows read at one place: each in steps of a move."""

    @property
    def is_in_place(self) -> bool:
        """Whether a window is one pixel, and every pixel one."""
        return self.kernel == (1, 1) and self.strides == (1, 1) and not any(self.padding)

    @property
    def steps(self) -> tuple[int, int]:
        """Rows and columns from one that is gathered to the next: windows may leave some out."""
        return tuple(  # type: ignore[return-value]
            step if size == 1 else 1 for size, step in zip(self.kernel, self.strides, strict=True)
        )

    @property
    def moves(self) -> tuple[int, int]:
        """Gathered rows and columns from one window to the next."""
        return tuple(  # type: ignore[return-value]
            1 if size == 1 else step for size, step in zip(self.kernel, self.strides, strict=True)
        )

    @property
    def result(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        top, left, bottom, right = self.padding
        whole = (self.height + top + bottom, self.width + left + right)
        found = (
            (extent - (size - 1) * dilation - 1) // stride + 1
            for extent, size, dilation, stride in zip(
                whole, self.kernel, self.dilation, self.strides, strict=True
            )
        )
        return tuple(found)  # type: ignore[return-value]

    def gathered(self, results: int, axis: int) -> int:
        """Return rows (axis 0) or columns (axis 1) that so many neighbouring results read."""
        return (results - 1) * self.moves[axis] + (self.kernel[axis] - 1) * self.dilation[axis] + 1

    @property
    def channels(self) -> int:
        """Of the data."""
        return self.chunks * self.lanes

    @property
    def columns(self) -> int:
        """Gathered columns."""
        return self.gathered(self.result[1], 1)

    @property
    def positions(self) -> int:
        """Elements of a channel of a gathered row, in planes."""
        return self.moves[1] * math.ceil(self.columns / self.moves[1])

    def position(self, column: Any) -> Any:
        """Return where a gathered column lies in its channel, in planes."""
        move = self.moves[1]
        return column % move * (self.positions // move) + column // move

    @property
    def row_step(self) -> int:
        """Elements from a gathered row to the next."""
        return self.channels * (self.positions if self.planar else self.columns)

    def in_words(self, depth: int) -> Geometry:
        """Return it with words of so many channels in the place of channels."""
        return replace(self, lanes=self.lanes // depth)

    def offsets(self) -> np.ndarray:
        """Return the offset of each column of the weight ``[O, C / c, h, w, c]``, int32."""
        if self.is_in_place:
            return np.arange(self.channels, dtype="int32")
        chunk, row, column, lane = np.ix_(*map(np.arange, (self.chunks, *self.kernel, self.lanes)))
        if self.planar:
            plane = (chunk * self.lanes + lane) * self.positions
            across = self.position(column * self.dilation[1])
            found = row * self.dilation[0] * self.row_step + plane + across
            return found.reshape(-1).astype("int32")
        found = (
            row * self.dilation[0] * self.row_step
            + chunk * self.columns * self.lanes
            + column * self.dilation[1] * self.lanes
            + lane
        )
        return found.reshape(-1).astype("int32")

    def place(self, offset: Any) -> tuple[Any, Any, Any, Any]:
        """Return row, chunk, column and lane of an offset in the gathered image."""
        row, rest = offset // self.row_step, offset % self.row_step
        if self.planar:
            channel, at = rest // self.positions, rest % self.positions
            side_by_side = self.positions // self.moves[1]
            column = at % side_by_side * self.moves[1] + at // side_by_side
            return row, channel // self.lanes, column, channel % self.lanes
        chunk, rest = rest // (self.columns * self.lanes), rest % (self.columns * self.lanes)
        return row, chunk, rest // self.lanes, rest % self.lanes

    @property
    def numbers(self) -> list[int]:
        """All that is not in the shape of the data."""
        told = [*self.kernel, *self.strides, *self.dilation, *self.padding]
        return [*told, 1] if self.planar else told

    @classmethod
    def of(cls, shape: Sequence[Any], numbers: Sequence[Any]) -> Geometry:
        """Return the geometry of a stage, from the shape of its data and its :attr:`numbers`."""
        _, chunks, height, width, lanes = (int(each) for each in shape)
        h, w, down, along, deep, wide, *padding = (int(each) for each in numbers)
        top, left, bottom, right, *planar = padding
        return cls(
            chunks,
            height,
            width,
            lanes,
            (h, w),
            (down, along),
            (deep, wide),
            (top, left, bottom, right),
            bool(planar),
        )


def register_sparse_products() -> None:
    """Make the two operators known to Relay; idempotent."""
    register_dot()
    for name, compute, relation, attributes in (
        (DENSE, _dense, _dense_type, DENSE_ATTRIBUTES),
        (CONV2D, _conv2d, window_type, CONV2D_ATTRIBUTES),
    ):
        register_operator(
            name,
            _OPERANDS,
            compute,
            pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
            type_relation=relation,
            attributes=attributes,
        )


def depth_of(dtype: Any) -> int:
    """Return how many numbers of a type are one word."""
    return 1 if str(dtype) == FLOAT else WORD_BYTES // np.dtype(str(dtype)).itemsize


@dataclass(frozen=True)
class Index:
    """Where the parts of an index begin."""

    groups: int
    channels: int

    @classmethod
    def of(cls, values: Sequence[Any], index: Sequence[Any], channels: int) -> Index:
        """Return it, from the shapes of values and index, and the channels of the result."""
        return cls((int(index[0]) - 1 - channels - int(values[0])) // 2, channels)

    @property
    def firsts(self) -> int:
        """Of the first channels of groups."""
        return self.groups + 1

    @property
    def places(self) -> int:
        """Of the places of channels."""
        return self.firsts + self.groups

    @property
    def offsets(self) -> int:
        """Of the offsets."""
        return self.places + self.channels


def _sum(
    shape: Sequence[Any],
    channel_of: Callable[..., Any],
    element_at: Callable[..., Any],
    values: Any,
    index: Any,
    numbers: Sequence[int],
) -> Any:
    """Return the products as one tensor expression.

    Each sum runs over all entries and takes those of its group's list. That defines the numbers;
    a kernel that leaves the others out is `schedules/sparse`. `element_at` is given the offset of a
    word, which of its numbers, and the place.
    """
    entries, vectors, wide = (int(each) for each in values.shape)
    depth = depth_of(values.dtype)
    lanes, numbers_of_word = wide // depth, range(depth)
    channels = math.prod(int(each) for each in (shape[1], *shape[4:]))
    parts = Index.of(values.shape, index.shape, channels)
    entry = te.reduce_axis((0, entries), name="entry")

    def total(*place: Any) -> Any:
        at = index[parts.places + channel_of(*place)]
        group, within = at // (vectors * lanes), at % (vectors * lanes)
        inside = tir.all(entry >= index[group], entry < index[group + 1])
        offset, first = index[parts.offsets + entry], within % lanes * depth
        weights = [values[entry, within // lanes, first + number] for number in numbers_of_word]
        data = [element_at(offset, number, *place) for number in numbers_of_word]
        if depth == 1:
            product, zero = weights[0] * data[0], tir.const(0, FLOAT)
        else:
            product, zero = dot(data, weights), tir.const(0, SUM)
        return te.sum(tir.if_then_else(inside, product, zero), axis=[entry])

    return te.compute(tuple(shape), total, name=STAGE, attrs={GEOMETRY: list(numbers)})


def _dense(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    data, values, index = inputs
    depth = depth_of(values.dtype)
    return [
        _sum(
            out_type.shape,
            lambda m, n: n,
            lambda offset, number, m, n: data[m, offset * depth + number],
            values,
            index,
            [],
        )
    ]


def _conv2d(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    data, values, index = inputs
    depth = depth_of(values.dtype)
    geometry = _geometry(data.shape, attrs).in_words(depth)
    top, left = geometry.padding[:2]
    block = int(out_type.shape[-1])

    def element(offset: Any, number: Any, n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        if geometry.is_in_place:
            inner = offset % geometry.lanes * depth + number
            return data[n, offset // geometry.lanes, y, x, inner]
        row, chunk, column, word = geometry.place(offset)
        inner = word * depth + number
        h = (y * geometry.moves[0] + row) * geometry.steps[0] - top
        w = (x * geometry.moves[1] + column) * geometry.steps[1] - left
        inside = tir.all(h >= 0, h < geometry.height, w >= 0, w < geometry.width)
        return tir.if_then_else(inside, data[n, chunk, h, w, inner], tir.const(0, data.dtype))

    return [
        _sum(
            out_type.shape,
            lambda n, o, y, x, lane: o * block + lane,
            element,
            values,
            index,
            geometry.numbers,
        )
    ]


def _dense_type(operands: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    return relay.TensorType((operands[0].shape[0], int(attrs.units)), _result_type(operands))


def window_type(operands: Sequence[Any], attrs: Any) -> Any:
    """Return the type of a sparse window's result, or None where operands have no types yet."""
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    shape = operands[0].shape
    rows, columns = _geometry(shape, attrs).result
    block = int("".join(filter(str.isdigit, str(attrs.out_layout))))
    return relay.TensorType(
        (shape[0], int(attrs.channels) // block, rows, columns, block), _result_type(operands)
    )


def _result_type(operands: Sequence[Any]) -> str:
    return FLOAT if str(operands[1].dtype) == FLOAT else SUM


def _geometry(shape: Sequence[Any], attrs: Any) -> Geometry:
    told = [*attrs.kernel_size, *attrs.strides, *attrs.dilation, *attrs.padding]
    return Geometry.of(shape, [*told, 1] if str(attrs.kernel_layout) == PLANES else told)
