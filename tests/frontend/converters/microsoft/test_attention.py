from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    expected_outputs,
    floats,
    integers,
    model_of,
    translate,
)
from tests.frontend.onnx_nodes import run
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

HEADS = {"num_heads": 4}
Q, K, V = floats(2, 3, 32), floats(2, 5, 32, seed=1), floats(2, 5, 32, seed=2)


def test_projections_agree_with_onnx_runtime() -> None:
    x, weights, bias = floats(2, 5, 24), floats(24, 96) * 0.3, floats(96)
    narrow = floats(24, 16 + 16 + 32) * 0.3
    sizes = {**HEADS, "qkv_hidden_sizes": [16, 16, 32]}
    past = floats(2, 2, 4, 3, 8, seed=1)
    check(
        [
            Call("Attention", [x, weights, bias], HEADS),
            Call("Attention", [x, weights, bias], HEADS, known=[1, 2]),
            Call("Attention", [x, weights, bias], {**HEADS, "scale": 0.5}),
            Call("Attention", [x, narrow, floats(64)], sizes),
            Call("Attention", [x, weights, bias], HEADS, outputs=(True, True)),
            Call("Attention", [x, weights, bias, None, past], HEADS, outputs=(True, True)),
            Call("Attention", [x, weights, bias, None, past], HEADS, [4], (True, True)),
        ]
    )


def test_halves_are_those_of_floats() -> None:
    """ONNX Runtime has no CPU kernel for halves: its floats are the reference."""
    arrays = [floats(2, 5, 24), floats(24, 96) * 0.3, floats(96)]
    mask = np.asarray([3, 5], "int32")
    model, feeds = model_of([Call("Attention", [*arrays, mask], HEADS)])
    (expected,) = expected_outputs(model, feeds)
    halves = [array.astype("float16") for array in arrays]
    (found,) = run(*model_of([Call("Attention", [*halves, mask], HEADS)]))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-3 * np.abs(expected).max())


def test_no_bias_is_one_of_zeros() -> None:
    """ONNX Runtime's CPU kernel reads the bias that is not there."""
    x, weights = floats(2, 5, 24), floats(24, 96) * 0.3
    calls = [
        Call("Attention", [x, weights], HEADS),
        Call("Attention", [x, weights, np.zeros(96, "float32")], HEADS),
    ]
    np.testing.assert_array_equal(*run(*model_of(calls)))


def test_quantized_projections_agree_with_onnx_runtime() -> None:
    x, weights = integers("uint8", 2, 5, 32), integers("int8", 32, 96)
    bias, scale = floats(96), np.float32(0.002)
    scales, zeros = np.linspace(0.001, 0.003, 96, dtype="float32"), np.zeros(96, "int8")
    start = [x, weights, bias, np.float32(0.02)]
    mask = np.asarray([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")
    past = floats(2, 2, 4, 3, 8, seed=1)
    known = [1, 2, 3, 4, 6, 7]
    both = (True, True)
    check(
        [
            Call("QAttention", [*start, scale], HEADS, known),
            Call("QAttention", [*start, scales, mask, np.uint8(128), zeros], HEADS, known),
            Call(
                "QAttention",
                [*start, scale, None, np.uint8(100), np.int8(3), past],
                {**HEADS, "unidirectional": 1},
                known,
                both,
            ),
        ]
    )


def mha(inputs: list[Any], outputs: Any = (True,), **attributes: Any) -> Call:
    return Call("MultiHeadAttention", inputs, {**HEADS, **attributes}, outputs=outputs)


def test_heads_agree_with_onnx_runtime() -> None:
    bias = floats(96, seed=3)
    past = [floats(2, 4, 2, 8, seed=i) for i in (4, 5)]
    check(
        [
            mha([Q, K, V]),
            mha([Q, K, V, bias], scale=0.3),
            mha([Q, K, floats(2, 5, 16)]),
            mha([K, K, V], unidirectional=1),
            mha([Q, K, V, bias, None, floats(1, 4, 3, 5)]),
            mha([K, K, V, None, None, None, *past], (True, True, True), unidirectional=1),
            mha([K, K, V, bias, None, None, *past], (True, True, True)),
            mha([Q, K, V], (True, True, True)),
        ]
    )


def test_keys_may_be_padded_in_every_form() -> None:
    generator = np.random.default_rng(0)
    check(
        [
            mha([Q, K, V, None, np.asarray([3, 5], "int32")]),
            mha([Q, K, V, None, generator.integers(0, 2, (2, 5)).astype("int32")]),
            mha([Q, K, V, None, generator.integers(0, 2, (2, 3, 5)).astype("int32")]),
            mha(
                [Q, K, V, None, np.asarray([[1, 1, 1, 1, 0]] * 2, "int32")], mask_filter_value=-1.5
            ),
        ]
    )


def test_keys_may_be_heads_already() -> None:
    check([mha([Q, floats(2, 4, 5, 8), floats(2, 4, 5, 8, seed=1)])])


def test_packed_operands_are_those_apart() -> None:
    """ONNX Runtime has no CPU kernel for them."""
    packed = floats(2, 5, 4, 3, 8)
    queries, keys, values = (packed[:, :, :, i].reshape(2, 5, 32) for i in range(3))
    all_packed, pair, apart = run(
        *model_of(
            [
                mha([packed]),
                mha([queries, np.ascontiguousarray(packed[:, :, :, 1:])]),
                mha([queries, keys, values]),
            ]
        )
    )
    np.testing.assert_allclose(all_packed, apart, rtol=0, atol=1e-6)
    np.testing.assert_allclose(pair, apart, rtol=0, atol=1e-6)


def test_scores_may_be_an_output() -> None:
    mask = np.asarray([[1, 1, 1, 1, 0]] * 2, "int32")
    call = mha([Q, K, V, None, mask], (True, False, False, True))
    check([replace(call, declared={3: TensorProto.FLOAT})])


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="past_key and past_value together"):
        translate(mha([Q, K, V, None, None, None, floats(2, 4, 2, 8)]))
    with pytest.raises(UnsupportedOperatorError, match=r"a bias of \[96\]; found \[32\]"):
        translate(mha([Q, K, V, floats(32)]))
    with pytest.raises(UnsupportedOperatorError, match="no input 'past_sequence_length'"):
        translate(mha([Q, K, V, *[None] * 5, np.asarray([1], "int32")]))
    with pytest.raises(UnsupportedOperatorError, match="hidden sizes that 4 heads divide"):
        translate(Call("Attention", [floats(1, 2, 6), floats(6, 18)], HEADS))
    with pytest.raises(UnsupportedOperatorError, match="'do_rotary' at its default, 0; found 1"):
        translate(Call("Attention", [floats(1, 2, 8), floats(8, 24)], {**HEADS, "do_rotary": 1}))
