"""The matrices of minimal filtering, and the operator they serve, without any schedule of ours."""

from __future__ import annotations

import numpy as np

from tests.layout.winograd_convolution import direct, filtered
from tests.relay_modules import REASSOCIATING, assert_close, inputs_of, module, run_plain
from tvm_fusionx.layout.winograd import (
    INPUT_MATRIX,
    OUTPUT_MATRIX,
    WEIGHT_MATRIX,
    transform_weights,
)


def test_the_matrices_filter_one_row() -> None:
    generator = np.random.default_rng(0)
    line, window = generator.standard_normal(6), generator.standard_normal(3)
    found = OUTPUT_MATRIX @ ((WEIGHT_MATRIX @ window) * (INPUT_MATRIX @ line))
    np.testing.assert_allclose(found, np.convolve(line, window[::-1], "valid"), rtol=1e-12)


def test_weights_are_packed_by_place_chunk_and_channel() -> None:
    array = np.random.default_rng(0).standard_normal((16, 3, 3, 3)).astype("float32")
    packed = transform_weights(array, 8)
    assert packed.shape == (36, 2, 3, 8)
    expected = WEIGHT_MATRIX @ array[9, 2] @ WEIGHT_MATRIX.T
    np.testing.assert_allclose(packed[:, 1, 2, 1].reshape(6, 6), expected, rtol=1e-5)


def test_tvm_builds_the_operator_by_itself() -> None:
    case = ((1, 8, 6, 5), 8, (1, 1, 1, 1))
    inputs = inputs_of(module(direct(*case)))
    found = run_plain(module(filtered(*case)), inputs)
    assert_close(found, run_plain(module(direct(*case)), inputs), REASSOCIATING)
