from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    model_of,
    translate,
)
from tests.frontend.onnx_nodes import run
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters.microsoft.normalization import wide_of

pytestmark = pytest.mark.slow

X, SKIP = floats(2, 3, 16) * 2, floats(2, 3, 16, seed=1)
GAMMA, BETA, BIAS = floats(16, seed=2), floats(16, seed=3), floats(16, seed=4)
# ONNX Runtime's CPU kernels compute the sum, and leave the statistics undefined.
SUM = (True, False, False, True)


def test_sums_are_normalized_with_every_input() -> None:
    op = "SkipLayerNormalization"
    check(
        [
            Call(op, [X, SKIP, GAMMA]),
            Call(op, [X, SKIP, GAMMA, BETA], {"epsilon": 0.1}),
            Call(op, [X, SKIP, GAMMA, BETA, BIAS], outputs=SUM),
            Call(op, [X, SKIP, GAMMA, None, BIAS], outputs=SUM, known=[2, 4]),
            Call(op, [X, SKIP[:1], GAMMA, BETA], outputs=SUM),
            Call(op, [X, SKIP[0], GAMMA, BETA], outputs=SUM),
            Call(op, [X[0], SKIP[0], GAMMA, BETA]),
        ]
    )


def test_sums_are_divided_by_their_root_mean_square() -> None:
    op = "SkipSimplifiedLayerNormalization"
    check(
        [
            Call(op, [X, SKIP, GAMMA], outputs=SUM),
            Call(op, [X, SKIP, GAMMA, BIAS], {"epsilon": 0.1}, outputs=SUM),
        ]
    )


def test_halves_are_normalized_in_single_precision() -> None:
    x, skip, gamma, beta = ((a * 30).astype("float16") for a in (X, SKIP, GAMMA, BETA))
    check(
        [
            Call("SkipLayerNormalization", [x, skip, gamma, beta], outputs=SUM),
            Call("SkipSimplifiedLayerNormalization", [x, skip, gamma], outputs=SUM),
            Call("SimplifiedLayerNormalization", [x, gamma], domain=""),
        ]
    )
    assert wide_of("float16") == "float32"
    assert wide_of("float64") == "float64"


def test_root_mean_squares_over_any_axes() -> None:
    op, both = "SimplifiedLayerNormalization", (True, True)
    check(
        [
            Call(op, [X, GAMMA], domain="", outputs=both),
            Call(op, [X, floats(3, 16)], {"axis": 1, "epsilon": 0.1}, domain="", outputs=both),
            Call(op, [X.astype("float64"), GAMMA.astype("float64")], domain=""),
        ]
    )


def test_the_statistics_are_those_of_the_sum() -> None:
    call = Call("SkipLayerNormalization", [X, SKIP, GAMMA], outputs=(True,) * 4)
    _, mean, inverse, total = run(*model_of([call]))
    np.testing.assert_allclose(total, X + SKIP, rtol=1e-6)
    np.testing.assert_allclose(mean, total.mean(-1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-12), 1e-5)


def test_embeddings_are_added_and_normalized() -> None:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, 20, (2, 5)).astype("int32")
    segments = generator.integers(0, 2, (2, 5)).astype("int32")
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")
    words, places, kinds = floats(20, 16), floats(8, 16, seed=1), floats(2, 16, seed=2)
    tables = [words, places, kinds, GAMMA, BETA]
    op = "EmbedLayerNormalization"
    check(
        [
            Call(op, [ids, segments, *tables, mask], outputs=(True, True)),
            Call(op, [ids, None, words, places, None, GAMMA, BETA], outputs=(True, True)),
            Call(op, [ids, segments, *tables, mask], {"epsilon": 0.1}, outputs=(True,) * 3),
            Call(op, [ids, segments, *tables, None, ids % 8], outputs=(True, True)),
        ]
    )


def test_a_skip_of_another_shape_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"a skip that broadcasts to \[1, 3, 16\]"):
        translate(Call("SkipLayerNormalization", [X[:1], SKIP, GAMMA]))
