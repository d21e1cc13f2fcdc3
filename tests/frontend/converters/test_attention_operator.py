from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

Q, K, V = floats(2, 4, 3, 8), floats(2, 2, 5, 8, seed=1), floats(2, 2, 5, 6, seed=2)
PAST = [floats(2, 2, 2, 8, seed=3), floats(2, 2, 2, 6, seed=4)]
ALLOWED = np.random.default_rng(5).random((2, 1, 3, 5)) > 0.3
ALLOWED[..., 0] = True
FLAT = [floats(2, 3, 32), floats(2, 5, 16, seed=1), floats(2, 5, 12, seed=2)]
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}


def test_attention_agrees_with_the_reference() -> None:
    cases = [
        Case("Attention", [Q, K, V]),
        Case("Attention", [Q, K, V, ALLOWED], {"softcap": 1.5}),
        Case("Attention", [Q, K, V, floats(3, 5, seed=6)], {"scale": 0.2}),
        Case("Attention", [Q, K, V, ALLOWED[0, 0]], known=[3]),
        Case("Attention", [*FLAT], HEADS),
        Case("Attention", [*FLAT, None, *PAST], {**HEADS, "is_causal": 1}, outputs=3),
        Case("Attention", [Q, K, V, None, *PAST], {"is_causal": 1}, outputs=3),
    ]
    check(cases, 23)
    check([by_onnxruntime(case, 23) for case in cases], 23)


def test_scores_are_shown_in_each_mode() -> None:
    mask = np.where(ALLOWED, 0, -np.inf).astype("float32")
    shown = [
        Case(
            "Attention",
            [Q, K, V, mask, None, None],
            {"qk_matmul_output_mode": mode, "softcap": 2.0},
            outputs=4,
        )
        for mode in range(4)
    ]
    # ONNX's own evaluator caps what mode 0 shows.
    check([by_onnxruntime(case, 23) for case in shown], 23)


def test_rows_without_a_key_are_zero() -> None:
    allowed = ALLOWED.copy()
    allowed[:, :, 1] = False
    added = np.where(allowed, 0.5, -np.inf).astype("float32")
    attributes = {"qk_matmul_output_mode": 3}
    check(
        [
            Case("Attention", [Q, K, V, mask, None, None], attributes, known=known, outputs=4)
            for mask in (allowed, added)
            for known in ([], [3])
        ],
        24,
    )


@pytest.mark.parametrize("known", [[], [6]])
def test_caches_with_padding_are_read_up_to_their_lengths(known: list[int]) -> None:
    lengths = np.array([5, 2], "int64")
    check(
        [
            Case("Attention", [Q, K, V, None, None, None, lengths], known=known),
            Case("Attention", [Q, K, V, None, None, None, lengths], {"is_causal": 1}, known=known),
            Case("Attention", [Q, K, V, ALLOWED[..., :4], None, None, lengths], known=known),
        ],
        24,
    )


def test_windows_of_opset_25() -> None:
    lengths = np.array([5, 4], "int64")
    window = {"left_window_size": 1, "right_window_size": 0}
    check(
        [
            Case("Attention", [Q, K, V], window),
            Case("Attention", [Q, K, V, None, *PAST], {"left_window_size": 2}, outputs=3),
            Case("Attention", [Q, K, V, None, None, None, lengths], window),
        ],
        25,
    )


@pytest.mark.parametrize(
    ("inputs", "attributes", "match"),
    [
        (FLAT, {}, "three and q_num_heads that divides the last"),
        (FLAT, {"q_num_heads": 5, "kv_num_heads": 2}, "q_num_heads=5"),
        ([Q, K[:, :, :, :4], V], {}, "queries, keys and values"),
        ([Q, K[:1], V], {}, "queries, keys and values"),
        ([Q, K, V, None, PAST[0][:, :1], PAST[1]], {}, "a past like"),
        ([Q, K, V, None, PAST[0]], {}, "past_key and past_value together"),
        ([Q, K, V, None, None, None, np.array([1], "int64")], {}, "nonpad_kv_seqlen of shape"),
    ],
)
def test_operands_that_do_not_fit_are_refused(inputs: Any, attributes: Any, match: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=match):
        check([Case("Attention", inputs, attributes, expected=[])], 24)
