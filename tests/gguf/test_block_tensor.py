"""Blocks of a file are what the gguf package makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedules.packed_blocks import drawn
from tvm_fusionx.gguf.block_tensor import FORMATS, BlockTensor, as_blocks, joined


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_are_those_of_the_package(kind: str) -> None:
    gguf = pytest.importorskip("gguf")
    numbers = np.random.default_rng(0).standard_normal((6, 96)).astype("float32")
    type_ = gguf.GGMLQuantizationType[kind]
    data = gguf.quants.quantize(numbers, type_)
    found = as_blocks(kind, data, (6, 96))
    assert found.shape == (6, 96)
    np.testing.assert_array_equal(found.floats(), gguf.quants.dequantize(data, type_))
    np.testing.assert_array_equal(found.rows(np.asarray([4, 1])).floats(), found.floats()[[4, 1]])


def test_joined_where_they_lie_alike() -> None:
    one, other = drawn("Q4_1", 4, 64), drawn("Q4_1", 8, 64, seed=1)
    both = joined([one, other])
    assert isinstance(both, BlockTensor)
    np.testing.assert_array_equal(both.floats(), np.concatenate([one.floats(), other.floats()]))
    assert joined([one, drawn("Q4_0", 4, 64)]) is None
    assert joined([one, one.floats()]) is None
    floats = joined([one.floats(), other.floats()])
    assert isinstance(floats, np.ndarray)
    assert floats.shape == (12, 64)
