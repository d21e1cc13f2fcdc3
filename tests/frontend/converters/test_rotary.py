from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X, FLAT = floats(2, 4, 3, 8), floats(2, 3, 32)
ANGLES = floats(50, 4)
CACHES = [np.cos(ANGLES), np.sin(ANGLES)]
FULL = [np.cos(floats(2, 3, 4)), np.sin(floats(2, 3, 4))]
POSITIONS = np.array([[0, 1, 2], [7, 49, 3]], "int64")
SHORT = [cache[:, :2].copy() for cache in CACHES]


def test_rotary_embeddings_agree_with_the_reference() -> None:
    interleaved = {"interleaved": 1}
    cases = [
        Case("RotaryEmbedding", [X, *CACHES, POSITIONS]),
        Case("RotaryEmbedding", [X, *CACHES, POSITIONS], interleaved, known=[1, 2, 3]),
        Case("RotaryEmbedding", [X, *FULL]),
        Case("RotaryEmbedding", [X, *FULL], interleaved),
        Case("RotaryEmbedding", [FLAT, *CACHES, POSITIONS], {"num_heads": 4}),
        Case("RotaryEmbedding", [X, *SHORT, POSITIONS], {"rotary_embedding_dim": 4}),
        Case(
            "RotaryEmbedding",
            [FLAT, *SHORT, POSITIONS],
            {"num_heads": 4, "rotary_embedding_dim": 4, **interleaved},
        ),
    ]
    check(cases, 23)
    check([by_onnxruntime(case, 23) for case in cases], 23)


@pytest.mark.parametrize(
    ("inputs", "attributes", "match"),
    [
        ([FLAT, *CACHES, POSITIONS], {}, "num_heads that divides the last"),
        ([FLAT, *CACHES, POSITIONS], {"num_heads": 5}, "num_heads that divides the last"),
        ([X, *SHORT, POSITIONS], {}, "a cache of 4 columns"),
        ([X, *CACHES], {}, r"a cache of shape \[2, 3, 4\]"),
        ([X, *FULL, POSITIONS], {}, "a cache of two dimensions"),
        ([X, *CACHES, POSITIONS], {"rotary_embedding_dim": 10}, "an even number"),
        ([X, *CACHES, POSITIONS + 40], {}, "positions below 50"),
    ],
)
def test_operands_that_do_not_fit_are_refused(inputs: Any, attributes: Any, match: str) -> None:
    case = Case("RotaryEmbedding", inputs, attributes, known=[3], expected=[])
    with pytest.raises(UnsupportedOperatorError, match=match):
        check([case], 23)
