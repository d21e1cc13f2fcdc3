"""Winograd's minimal filtering F(m x m, 3 x 3): its matrices and the transform of weights.

A 3x3 convolution of stride 1 makes each m x m tile of output from an (m + 2) x (m + 2) tile of
input with (m + 2)^2 instead of 9 m^2 multiplications a channel pair (Lavin and Gray, 2016,
section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Pixels of the window along one axis.
WINDOW = 3


@dataclass(frozen=True, eq=False)
class Filtering:
    """F(tile x tile, 3 x 3) by its three matrices, each applied along both axes."""

    tile: int
    """Output pixels of a tile along one axis."""
    input_matrix: np.ndarray
    """``[span, span]``, float64."""
    weight_matrix: np.ndarray
    """``[span, 3]``, float64."""
    output_matrix: np.ndarray
    """``[tile, span]``, float64."""

    @property
    def span(self) -> int:
        """Input pixels of a tile along one axis."""
        return self.tile + WINDOW - 1

    @property
    def points(self) -> int:
        """Multiplications that a tile takes."""
        return self.span * self.span


# Lavin and Gray, section 4.1: evaluated at 0, 1, -1 and infinity.
_F2 = Filtering(
    tile=2,
    input_matrix=np.array(
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], dtype=np.float64
    ),
    weight_matrix=np.array(
        [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]], dtype=np.float64
    ),
    output_matrix=np.array([[1, 1, 1, 0], [0, 1, -1, -1]], dtype=np.float64),
)

# Lavin and Gray, section 4.3: evaluated at 0, 1, -1, 2, -2 and infinity.
_F4 = Filtering(
    tile=4,
    input_matrix=np.array(
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        dtype=np.float64,
    ),
    weight_matrix=np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        dtype=np.float64,
    ),
    output_matrix=np.array(
        [
            [1, 1, 1, 1, 1, 0],
            [0, 1, -1, 2, -2, 0],
            [0, 1, 1, 4, 4, 0],
            [0, 1, -1, 8, -8, 1],
        ],
        dtype=np.float64,
    ),
)

# F(6 x 6) loses another decimal digit, and its 64 points do not fit any register file.
FILTERINGS = {each.tile: each for each in (_F2, _F4)}


def transform_weights(array: np.ndarray, filtering: Filtering, panel: int) -> np.ndarray:
    """Return convolution weights transformed, in the order in which the kernel reads them.

    Parameters
    ----------
    array
        Weights ``[O, I, 3, 3]``.
    filtering
        Which transform. It is computed in float64.
    panel
        Output channels that lie side by side; divides O.

    Returns
    -------
    numpy.ndarray
        ``[O / panel, points, I, panel]`` in the dtype of `array`.
    """
    outputs, inputs, _, _ = array.shape
    both_axes = np.kron(filtering.weight_matrix, filtering.weight_matrix)
    shape = (outputs // panel, filtering.points, inputs, panel)
    wide = np.empty(shape, array.dtype)
    # Panel by panel: all of them in float64 would take ten times the memory of the weights.
    for index, channels in enumerate(range(0, outputs, panel)):
        part = array[channels : channels + panel].transpose(2, 3, 1, 0).reshape(WINDOW * WINDOW, -1)
        wide[index] = (both_axes @ part.astype(np.float64)).reshape(shape[1:])
    return wide


def panel_weights(array: np.ndarray, panel: int) -> np.ndarray:
    """Return convolution weights as they are, in the order in which the kernel transforms them.

    Parameters
    ----------
    array
        Weights ``[O, I, 3, 3]``.
    panel
        Output channels that lie side by side; divides O.

    Returns
    -------
    numpy.ndarray
        ``[O / panel, I, 3, 3, panel]``.
    """
    outputs, *rest = array.shape
    panels = array.reshape(outputs // panel, panel, *rest)
    return np.ascontiguousarray(panels.transpose(0, 2, 3, 4, 1))
