from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

X = floats(1, 2, 4, 5)


def test_samples_agree_with_the_reference() -> None:
    grid = np.clip(floats(1, 3, 2, 2, seed=1), -1, 1)
    check(
        [
            Case("GridSample", [X, grid], {"mode": mode, "align_corners": align})
            for mode in ("linear", "nearest")
            for align in (0, 1)
        ],
        opset=20,
    )


def test_affine_grids_of_any_batch() -> None:
    sizes = [(1, 2, 3, 4), (2, 1, 3, 1), (1, 1, 2, 3, 4), (1, 1, 1, 1)]
    cases = []
    for batch, channels, *extents in sizes:
        theta = floats(batch, len(extents), len(extents) + 1)
        size = np.array([batch, channels, *extents])
        cases += [
            Case("AffineGrid", [theta, size], {"align_corners": align}, known=[1])
            for align in ((0, 1) if min(extents) > 1 else (0,))
        ]
    check(cases, opset=20)


def test_regions_are_averaged_and_other_modes_refused() -> None:
    rois = np.array([[0, 0, 3, 3], [1, 1, 4, 3]], "float32")
    inputs = [X, rois, np.zeros(2, "int64")]
    attributes = {"output_height": 2, "output_width": 2, "sampling_ratio": 2}
    plain = attributes | {"coordinate_transformation_mode": "output_half_pixel"}
    check([Case("RoiAlign", inputs, plain)], opset=16)
    with pytest.raises(UnsupportedOperatorError, match="output_half_pixel"):
        check([Case("RoiAlign", inputs, attributes)], opset=16)
