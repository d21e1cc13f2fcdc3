from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    integers,
    translate,
)
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters.microsoft.key_value_cache import DTYPES

pytestmark = pytest.mark.slow

SIZE = 16
HEADS = {"num_heads": 4, "kv_num_heads": 2}


def call(
    batch: int, steps: int, room: int, lengths: Any, total: int, kind: str, bits: int = 8
) -> Call:
    """Return a call whose cache is of bytes."""
    widths = (4 * SIZE, 2 * SIZE, 2 * SIZE)
    shape = (1,) if kind == "PER_TENSOR" else (1, 2, 1, SIZE)
    scales = [np.abs(floats(*shape, seed=i)) * 0.01 + 2.5 / 2 ** (bits - 1) for i in (6, 7)]
    inputs = [
        *(floats(batch, steps, width, seed=i) for i, width in enumerate(widths)),
        *(integers(DTYPES[bits], batch, 2, room, SIZE * bits // 8, seed=i) for i in (3, 4)),
        np.asarray(lengths, "int32"),
        np.asarray(total, "int32"),
        *[None] * 5,
        *scales,
    ]
    attributes = {**HEADS, "k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    return Call("GroupQueryAttention", inputs, attributes, (6, 12, 13), (True, True, True))


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_caches_of_halves_of_bytes_agree_with_onnx_runtime(kind: str) -> None:
    calls = [
        call(1, 3, 8, [2], 3, kind, 4),
        call(2, 1, 8, [5, 3], 6, kind, 4),
        call(1, 3, 8, [7], 8, kind, 4),
    ]
    check(calls, 1e-4)


@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
def test_caches_of_bytes_agree_with_onnx_runtime(kind: str) -> None:
    calls = [
        call(1, 3, 8, [2], 3, kind),
        call(1, 1, 8, [5], 6, kind),
        call(2, 1, 8, [5, 3], 6, kind),
        call(1, 3, 8, [7], 8, kind),
    ]
    check(calls, 1e-4, quanta=1)


def test_what_a_cache_of_bytes_needs() -> None:
    plain = call(1, 1, 8, [5], 6, "PER_TENSOR")
    inputs = list(plain.inputs)
    inputs[12] = None
    with pytest.raises(UnsupportedOperatorError, match="a past among int8 of 8 bits"):
        translate(Call(plain.op_type, inputs, plain.attributes, (6, 13), plain.outputs))
    narrow = {**plain.attributes, "kv_cache_bit_width": 4}
    with pytest.raises(UnsupportedOperatorError, match="found int8 of 4 bits"):
        translate(Call(plain.op_type, plain.inputs, narrow, plain.known, plain.outputs))
