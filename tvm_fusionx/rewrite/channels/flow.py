"""What one call does with channels: where they go, what it adds up, what it makes of zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tvm_fusionx.ecg.graph import Attributes, Value

Axes = Mapping[Value, int]
"""For each value that channels are followed in: the axis that they lie along."""

Marks = Mapping[Value, np.ndarray]
"""For values: one truth value a channel."""


@dataclass(frozen=True)
class Tie:
    """Channels of two values that stay or go together: `here` of the first, `there` of the second.

    A place of the first may be tied to several of the second.
    """

    first: Value
    second: Value
    here: np.ndarray
    there: np.ndarray


@dataclass(frozen=True)
class Cut:
    """An axis of a constant that goes with the channels of a value."""

    axis: int
    channels_of: Value


@dataclass(frozen=True)
class Product:
    """A call whose results each add up channels of its operand, weighed by constants."""

    data: Value | None
    """The operand; None where its channels are not followed."""

    result: Value

    reads: np.ndarray
    """For each channel of the result and each of the operand: whether a weight is not zero."""

    is_finite: bool
    """Whether all weights are: an infinite one times zero is no number."""

    def zeros(self, known: Marks) -> dict[Value, np.ndarray]:
        """Return which channels of the result are sums of zeros."""
        reads = self.reads
        if self.data is not None and self.is_finite:
            reads = reads & ~known[self.data]
        is_read: np.ndarray = np.any(reads, axis=1)
        return {self.result: ~is_read}

    @cached_property
    def _read_by_some(self) -> np.ndarray:
        found: np.ndarray = np.any(self.reads, axis=0)
        return found

    def unread(self, zero: Marks, may_go: Marks) -> np.ndarray:
        """Return which channels of the operand add nothing to any result that stays."""
        assert self.data is not None
        go = may_go[self.result]
        is_read = np.any(self.reads[~go], axis=0) if go.any() else self._read_by_some
        return ~is_read | zero[self.data] if self.is_finite else ~is_read


@dataclass(frozen=True)
class Flow:
    """What a call does with channels."""

    axes: Axes
    """Of its results."""

    ties: tuple[Tie, ...] = ()

    cuts: Mapping[int, tuple[Cut, ...]] = field(default_factory=dict)
    """For the numbers of operands that are constants: the axes that are cut."""

    product: Product | None = None

    zeros: Callable[[Marks], Mapping[Value, np.ndarray]] | None = None
    """Given which channels of operands are zero, tells which of the results are. Without it a
    product's are sums of zeros, and another call's are those tied to nothing but zeros."""

    attributes: Callable[[Marks], Attributes] | None = None
    """Given which channels stay, returns the call's attributes; the same when None."""

    def zeros_of(self, known: Marks) -> Mapping[Value, np.ndarray]:
        """Return which channels of the results are zero, whatever the model is given."""
        if self.zeros is not None:
            return self.zeros(known)
        if self.product is not None:
            return self.product.zeros(known)
        found = {value: np.zeros(value.shape[axis], bool) for value, axis in self.axes.items()}
        for tie in self.ties:
            found[tie.second][tie.there] = known[tie.first][tie.here]
        return found


Follow = Callable[..., "Flow | str"]
"""``(node, axes of its operands) -> Flow``, or the reason why channels end there."""


def whole(first: Value, second: Value, channels: int) -> Tie:
    """Return the tie of values whose channels have the same places."""
    places = np.arange(channels)
    return Tie(first, second, places, places)


def never(axes: Axes) -> Callable[[Marks], dict[Value, np.ndarray]]:
    """Return what tells that no channel of values is zero."""
    return lambda known: {value: np.zeros(value.shape[axis], bool) for value, axis in axes.items()}


def count(stays: Marks, value: Value, axis: int) -> int:
    """Return how many channels of a value stay."""
    return int(stays[value].sum()) if value in stays else value.shape[axis]
