"""The matrices of minimal filtering, and the transform of weights."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.expressions.minimal_filtering import (
    FILTERINGS,
    WINDOW,
    panel_weights,
    transform_weights,
)


@pytest.mark.parametrize("tile", FILTERINGS)
def test_the_matrices_filter_one_row(tile: int) -> None:
    filtering = FILTERINGS[tile]
    generator = np.random.default_rng(0)
    line, window = generator.standard_normal(filtering.span), generator.standard_normal(WINDOW)
    products = (filtering.weight_matrix @ window) * (filtering.input_matrix @ line)
    found = filtering.output_matrix @ products
    np.testing.assert_allclose(found, np.convolve(line, window[::-1], "valid"), rtol=1e-12)


@pytest.mark.parametrize("tile", FILTERINGS)
def test_weights_are_packed_by_panel_point_and_channel(tile: int) -> None:
    filtering = FILTERINGS[tile]
    array = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype("float32")
    packed = transform_weights(array, filtering, 8)
    assert packed.shape == (2, filtering.points, 3, 8)
    assert packed.dtype == np.float32
    assert packed.flags.c_contiguous
    matrix = filtering.weight_matrix
    expected = (matrix @ array[9, 2].astype("float64") @ matrix.T).astype("float32")
    # Sums of nine products in float64, in another order, before rounding to float32.
    np.testing.assert_allclose(packed[1, :, 2, 1].reshape(expected.shape), expected, rtol=1e-6)


def test_weights_that_stay_as_they_are_are_packed_by_panel_and_channel() -> None:
    array = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype("float32")
    packed = panel_weights(array, 8)
    assert packed.shape == (2, 3, 3, 3, 8)
    assert packed.flags.c_contiguous
    np.testing.assert_array_equal(packed[1, 2, :, :, 1], array[9, 2])
