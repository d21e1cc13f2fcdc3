from __future__ import annotations

import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats

pytestmark = pytest.mark.slow


def test_products_with_transposes_agree_with_onnx_runtime() -> None:
    a, b = floats(4, 6), floats(6, 3, seed=1)
    check(
        [
            Call("FusedMatMul", [a, b]),
            Call("FusedMatMul", [a, b], {"alpha": 0.25}, known=[1]),
            Call("FusedMatMul", [a.T.copy(), b], {"transA": 1}),
            Call("FusedMatMul", [a, b.T.copy()], {"transB": 1, "alpha": -2.0}, known=[1]),
            Call("FusedMatMul", [floats(2, 4, 6), floats(2, 5, 6)], {"transB": 1}),
            Call("FusedMatMul", [floats(2, 1, 6, 4), floats(3, 6, 5)], {"transA": 1}),
            Call("TransposeMatMul", [a.T.copy(), b], {"transA": 1, "alpha": 0.5}),
            Call(
                "FusedMatMul",
                [floats(2, 6, 4, dtype="float64"), floats(6, 3, dtype="float64")],
                {"transA": 1},
            ),
        ]
    )


def test_the_batch_may_lie_before_the_last_axis() -> None:
    # (rows, batch, columns): the batch is the second axis.
    a, b = floats(4, 2, 6), floats(2, 6, 5)
    check(
        [
            Call("FusedMatMul", [a, b], {"transBatchA": 1}),
            Call("FusedMatMul", [floats(6, 2, 4), b], {"transBatchA": 1, "transA": 1}),
            Call("FusedMatMul", [floats(2, 4, 6), floats(6, 2, 5)], {"transBatchB": 1}),
            Call(
                "FusedMatMul", [floats(2, 4, 6), floats(5, 2, 6)], {"transBatchB": 1, "transB": 1}
            ),
            Call("FusedMatMul", [floats(3, 4, 2, 6), floats(4, 2, 6, 5)], {"transBatchA": 1}),
        ]
    )


def test_sums_of_products_agree_with_onnx_runtime() -> None:
    a, b, c = floats(4, 6), floats(6, 3, seed=1), floats(3, seed=2)
    check(
        [
            Call("FusedGemm", [a, b, c], {"activation": "Relu"}, known=[1, 2]),
            Call(
                "FusedGemm",
                [a.T.copy(), b.T.copy(), c],
                {"transA": 1, "transB": 1, "alpha": 0.5, "activation": "Relu"},
            ),
            Call("FusedGemm", [a, b, c], {"beta": 2.0, "activation": "Tanh"}),
            Call("FusedGemm", [a, b], {"activation": "LeakyRelu", "activation_alpha": 0.3}),
            Call("FusedGemm", [a, b, c], {"activation": "Sigmoid"}),
        ]
    )
