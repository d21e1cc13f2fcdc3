"""What a maximum over windows of one channel looks like: its sizes, and what computes its data."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.tir.block import Stage

# Axes before those that the window moves over: image and channel.
OUTER_AXES = 2

# Planes, rows and columns; what has fewer axes has one plane, or one row.
MAX_MOVING_AXES = 3


@dataclass(frozen=True)
class ChannelWindow:
    """A window that takes the largest element, over planes, rows and columns of one channel."""

    data: Any
    """The buffer ``[N, C, ...]``, before it is padded."""
    result: Any
    """The buffer ``[N, C, ...]`` that it writes."""
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    """Planes, rows and columns before the data."""
    lowest: Any
    """What each window starts with, and what pads."""

    @property
    def size(self) -> tuple[int, ...]:
        """Planes, rows and columns of the data."""
        return three(self.data.shape[-self.moving :])

    @property
    def out_size(self) -> tuple[int, ...]:
        """Planes, rows and columns of the result."""
        return three(self.result.shape[-self.moving :])

    @property
    def moving(self) -> int:
        """How many axes the window moves over."""
        return len(self.data.shape) - OUTER_AXES

    def under(self, axis: int, at: Any) -> list[Any]:
        """Return the planes, rows or columns of the data under the windows of one of the result.

        One beyond the data stands for the nearest one, which is under the window as well.
        """
        stride, padding, last = self.stride[axis], self.padding[axis], self.size[axis] - 1
        found = []
        for tap in range(self.kernel[axis]):
            place = at * stride + (tap - padding)
            place = tir.max(place, 0) if tap < padding else place
            is_beyond = (self.out_size[axis] - 1) * stride + tap - padding > last
            found.append(tir.min(place, last) if is_beyond else place)
        return found

    def is_over_data(self) -> bool:
        """Tell whether each window of planes has some of the data under it."""
        return all(
            padding < kernel and (out - 1) * stride - padding < size
            for kernel, stride, padding, size, out in zip(
                self.kernel, self.stride, self.padding, self.size, self.out_size, strict=True
            )
        )


def three(values: Any) -> tuple[int, ...]:
    """Return integers of up to three axes with ones in front of them."""
    known = [int(value) for value in values]
    return (*[1] * (MAX_MOVING_AXES - len(known)), *known)


def largest(elements: Sequence[Any]) -> Any:
    """Return the largest of some elements, or of some vectors lane by lane."""
    return functools.reduce(tir.Max, elements)


@dataclass(frozen=True)
class Before:
    """What computes the data that a window moves over."""

    stage: Stage
    """Computes them element by element."""
    is_result: bool
    """Whether others read them; one channel at a time is kept otherwise."""
