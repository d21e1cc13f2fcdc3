from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(2, 4, 3, 5)
WITH_A_ZERO_ROW = X * np.array([0, 1, 1], np.float32)[:, None]
SCALE, SHIFT, MEAN = (floats(4, seed=seed) for seed in (1, 2, 3))
VARIANCE = np.abs(floats(4, seed=4)) + 0.5


def test_normalizations_agree_with_the_reference() -> None:
    check(
        [
            Case("BatchNormalization", [X, SCALE, SHIFT, MEAN, VARIANCE], known=[1, 2, 3, 4]),
            Case("BatchNormalization", [X, SCALE, SHIFT, MEAN, VARIANCE], {"epsilon": 0.1}),
            Case("InstanceNormalization", [X, SCALE, SHIFT]),
            Case("LayerNormalization", [X, floats(5), floats(5, seed=1)], outputs=3),
            Case("LayerNormalization", [X, floats(3, 5)], {"axis": 2}),
            by_onnxruntime(Case("LpNormalization", [X], {"axis": 1, "p": 1})),
            Case("LpNormalization", [X]),
            by_onnxruntime(Case("LpNormalization", [WITH_A_ZERO_ROW])),
            by_onnxruntime(Case("LRN", [X], {"size": 3, "alpha": 0.1})),
            by_onnxruntime(Case("LRN", [X], {"size": 5, "bias": 2.0})),
        ]
    )


def test_batch_statistics_are_used_in_training_mode() -> None:
    inputs = [X, SCALE, SHIFT, MEAN, VARIANCE]
    check([Case("BatchNormalization", inputs, {"training_mode": 1}, outputs=3)])


def test_groups_of_channels_before_and_since_opset_21() -> None:
    grouped = X.reshape(2, 2, 2, 3, 5)
    mean = grouped.mean(axis=(2, 3, 4), keepdims=True)
    variance = grouped.var(axis=(2, 3, 4), keepdims=True)
    normal = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(X.shape)
    by_channel = normal * SCALE[None, :, None, None] + SHIFT[None, :, None, None]
    case = Case("GroupNormalization", [X, SCALE, SHIFT], {"num_groups": 2}, expected=[by_channel])
    check([case])
    scale, shift = SCALE[:2], SHIFT[:2]
    spread = [np.repeat(v, 2)[None, :, None, None] for v in (scale, shift)]
    by_group = normal * spread[0] + spread[1]
    old = Case("GroupNormalization", [X, scale, shift], {"num_groups": 2}, expected=[by_group])
    check([old], opset=18)
