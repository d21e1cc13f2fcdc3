from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats, translate
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

COS, SIN = floats(10, 8), floats(10, 8, seed=1)
IDS = np.asarray([[0, 1, 2], [4, 6, 9]], "int64")
FIRST = np.asarray([3], "int64")
FOUR, THREE = floats(2, 4, 3, 16), floats(2, 3, 64)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_embeddings_agree_with_onnx_runtime(interleaved: int) -> None:
    op, attributes = "RotaryEmbedding", {"interleaved": interleaved}
    part = {**attributes, "rotary_embedding_dim": 8, "num_heads": 4}
    half_cos, half_sin = COS[:, :4].copy(), SIN[:, :4].copy()
    check(
        [
            Call(op, [FOUR, IDS, COS, SIN], attributes, [2, 3]),
            Call(op, [FOUR, FIRST, COS, SIN], attributes),
            Call(op, [THREE, IDS, COS, SIN], attributes, [2, 3]),
            Call(op, [THREE, FIRST, COS, SIN], attributes, [1, 2, 3]),
            Call(op, [THREE, IDS, half_cos, half_sin], part, [2, 3]),
            Call(op, [FOUR, IDS, half_cos, half_sin], part, [2, 3]),
        ]
    )


def test_halves_agree_with_onnx_runtime() -> None:
    inputs = [FOUR.astype("float16"), IDS, COS.astype("float16"), SIN.astype("float16")]
    check([Call("RotaryEmbedding", inputs)])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"position_ids of \[1\] or \[2, 3\]"):
        translate(Call("RotaryEmbedding", [FOUR, IDS[:, :2], COS, SIN]))
    with pytest.raises(UnsupportedOperatorError, match="num_heads beside rotary_embedding_dim"):
        translate(Call("RotaryEmbedding", [THREE, IDS, COS, SIN], {"rotary_embedding_dim": 16}))
    with pytest.raises(UnsupportedOperatorError, match="'is_packed_batching' to be 0; found 1"):
        translate(Call("RotaryEmbedding", [THREE, IDS, COS, SIN], {"is_packed_batching": 1}))
    with pytest.raises(UnsupportedOperatorError, match="caches of two axes"):
        translate(Call("RotaryEmbedding", [FOUR, IDS, COS, SIN[:, :4]]))
