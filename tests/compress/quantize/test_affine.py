from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.compress.quantize.affine import (
    BIAS_MOST,
    affine_of,
    channel_scales,
    quantized_weights,
    rounded_weights,
    scales_for_bias,
)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("bounds", [(-1.0, 3.0), (0.0, 6.0), (-2.0, 0.0), (1.0, 2.0), (0.0, 0.0)])
def test_zero_is_an_integer_and_errors_are_half_a_step(
    bounds: tuple[float, float], dtype: str
) -> None:
    affine = affine_of(bounds, dtype)
    limits = np.iinfo(dtype)
    assert limits.min <= affine.zero <= limits.max
    assert affine.rounded(np.zeros(1))[0] == 0
    values = np.linspace(min(bounds[0], 0), max(bounds[1], 0), 1000, dtype="float32")
    # The zero point is rounded: at one end up to half a step more is cut off.
    assert np.abs(affine.rounded(values) - values).max() <= affine.scale * 1.01
    inside = values[(values > affine.bounds[0]) & (values < affine.bounds[1])]
    if inside.size:
        assert np.abs(affine.rounded(inside) - inside).max() <= affine.scale * 0.501


def test_weights_have_a_scale_for_each_channel() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 3, 2)).astype("float32")
    weights[2] *= 1000
    weights[3] = 0
    scales = channel_scales(weights, 0)
    integers = quantized_weights(weights, 0, scales)
    assert integers.dtype == np.int8
    assert np.abs(integers[:3]).reshape(3, -1).max(axis=1).tolist() == [127] * 3
    assert not integers[3].any()
    error = np.abs(rounded_weights(weights, 0) - weights).reshape(4, -1).max(axis=1)
    assert (error <= scales * 0.501).all()
    turned = channel_scales(np.moveaxis(weights, 0, 2), 2)
    assert (turned == scales).all()


def test_a_large_bias_widens_its_channel_alone() -> None:
    scales = np.array([1e-3, 1e-9], "float32")
    bias = np.array([1.0, 50.0], "float32")
    widened = scales_for_bias(scales, bias, 1e-3)
    assert widened[0] == scales[0]
    assert 50.0 / (1e-3 * float(widened[1])) <= BIAS_MOST * 1.001
