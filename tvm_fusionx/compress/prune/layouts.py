"""Where a layer's outputs and inputs lie in its array of weights.

Structures are told of ``(outputs, inputs, *window)``; files and modules have their own orders. A
layout turns one into the other, and masks back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

CONV, CONV_TRANSPOSE, LINEAR = "conv", "conv_transpose", "linear"
LSTM, GRU, RNN = "lstm", "gru", "rnn"
ATTENTION, EMBEDDING = "attention", "embedding"
LAYER_KINDS = (CONV, CONV_TRANSPOSE, LINEAR, LSTM, GRU, RNN, ATTENTION, EMBEDDING)

# Gates of a recurrent layer, whose weights lie one below the other.
GATES = {LSTM: 4, GRU: 3, RNN: 1}


@dataclass(frozen=True)
class Layout:
    """How one array of weights is to be read.

    Attributes
    ----------
    name
        By which configurations and reports call it.
    kind
        One of :data:`LAYER_KINDS`.
    shape
        Of the array.
    parts
        Equal parts of the outputs which are layers of their own: groups of a convolution, gates,
        matrices of a stack. No tile lies in two of them.
    leading
        How many first axes count parts and nothing else: matrices of a stack, directions.
    inputs_first
        Whether a part is ``(inputs, outputs, *window)``, and not the other way round.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    parts: int = 1
    leading: int = 0
    inputs_first: bool = False

    @property
    def canonical_shape(self) -> tuple[int, ...]:
        """Return ``(outputs, inputs, *window)``."""
        return self.canonical(np.broadcast_to(np.float32(0), self.shape)).shape

    def canonical(self, array: np.ndarray) -> np.ndarray:
        """Return an array of this layout as ``(outputs, inputs, *window)``."""
        first, second, *window = self._inner()
        parted = array.reshape(self.parts, first, second, *window)
        if self.inputs_first:
            parted, first, second = parted.swapaxes(1, 2), second, first
        return parted.reshape(self.parts * first, second, *window)

    def restored(self, array: np.ndarray) -> np.ndarray:
        """Return what :meth:`canonical` gave, or a mask for it, in this layout."""
        first, second, *window = self._inner()
        if not self.inputs_first:
            return array.reshape(self.shape)
        parted = array.reshape(self.parts, second, first, *window).swapaxes(1, 2)
        return np.ascontiguousarray(parted).reshape(self.shape)

    def _inner(self) -> tuple[Any, ...]:
        """Return a part's shape."""
        inner = self.shape[self.leading :]
        within = self.parts // math.prod(self.shape[: self.leading])
        return inner[0] // within, *inner[1:]
