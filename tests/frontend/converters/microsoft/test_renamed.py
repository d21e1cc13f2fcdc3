from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats

pytestmark = pytest.mark.slow


def test_calls_under_another_name_agree_with_onnx_runtime() -> None:
    x = floats(2, 3, 4)
    one = np.asarray([1], "int32")
    check(
        [
            Call("GatherND", [x, np.asarray([[0, 1], [1, 2]], "int64")]),
            Call("Pad", [x, np.asarray([0, 1, 2, 0, 0, 1], "int64")], known=[1]),
            Call("Pad", [x, np.asarray([0, 1, 1, 0, 0, 1], "int64")], {"mode": "reflect"}, [1]),
            Call("Trilu", [x], {"upper": 0}),
            Call("Trilu", [x, np.asarray(1, "int64")], known=[1]),
            Call("ExpandDims", [x, one], known=[1]),
            Call("ExpandDims", [x, -one], known=[1]),
        ]
    )


def test_ranges_are_known_while_compiling() -> None:
    start, limit = (np.asarray([n], "float32") for n in (1, 7))
    half = np.asarray([0.5], "float32")
    check(
        [
            Call("Range", [start, limit], known=[0, 1]),
            Call("Range", [start, limit, half], known=[0, 1, 2]),
        ]
    )


def test_grids_agree_with_onnx_runtime() -> None:
    x, grid = floats(1, 2, 6, 5), floats(1, 4, 3, 2) * 0.7
    check(
        [
            Call("GridSample", [x, grid], {"mode": mode, "padding_mode": "border"})
            for mode in ("bilinear", "nearest", "bicubic")
        ]
        + [Call("GridSample", [x, grid], {"align_corners": 1})]
    )
