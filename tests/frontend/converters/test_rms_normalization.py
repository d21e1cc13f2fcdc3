from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(2, 3, 8)


def test_root_mean_squares_agree_with_both_references() -> None:
    cases = [
        Case("RMSNormalization", [X, floats(8)]),
        Case("RMSNormalization", [X, floats(8)], {"epsilon": 0.5}, known=[1]),
        Case("RMSNormalization", [X, floats(3, 8)], {"axis": 1}),
        Case("RMSNormalization", [X, floats(8)], {"axis": 0}),
    ]
    check(cases, 23)
    check([by_onnxruntime(case, 23) for case in cases], 23)


def test_squares_of_halves_are_summed_in_single() -> None:
    # Squares of 300 are beyond what a half holds.
    x = (np.abs(X) * 300 + 300).astype("float16")
    root = np.sqrt((x.astype("float64") ** 2).mean(-1, keepdims=True) + 1e-5)
    expected = (x / root).astype("float16")
    case = Case("RMSNormalization", [x, np.ones(8, "float16")], expected=[expected])
    check([case], 23, tolerance=1e-3)


def test_doubles_stay_doubles() -> None:
    x = X.astype("float64")
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    case = Case("RMSNormalization", [x, np.ones(8)], expected=[expected])
    check([case], 23, tolerance=1e-7)
