"""Vectors in flat buffers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.vectors import Vectors, load


@pytest.mark.parametrize("lanes", [1, 4])
def test_kept_vectors_are_read_again(lanes: int) -> None:
    source = tir.decl_buffer((2 * lanes,), "float32", "source")
    target = tir.decl_buffer((2 * lanes,), "float32", "target")
    vectors = Vectors(tir.ir_builder.create(), "float32")
    keep = vectors.keeper("kept", lanes, 2)
    first, second = (keep(load(source, each * lanes, lanes)) for each in (0, 1))
    vectors.store(target, 0, first + second, lanes)
    vectors.store(target, lanes, first - second, lanes)
    built = tvm.build(tir.PrimFunc([source, target], vectors.ib.get()), target="llvm")
    data = np.arange(2 * lanes, dtype="float32")
    found = tvm.nd.empty(data.shape)
    built(tvm.nd.array(data), found)
    one, other = data[:lanes], data[lanes:]
    np.testing.assert_array_equal(found.numpy(), np.concatenate([one + other, one - other]))


def test_no_more_is_kept_than_was_asked_for() -> None:
    keep = Vectors(tir.ir_builder.create(), "float32").keeper("kept", 1, 1)
    keep(tir.const(1.0, "float32"))
    with pytest.raises(StopIteration):
        keep(tir.const(2.0, "float32"))
