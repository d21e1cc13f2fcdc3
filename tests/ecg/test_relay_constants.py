"""Constants keep their memory on the way through a graph."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.ecg.relay_constants import NotAnArrayError, to_array, to_constant


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_elements_and_types_are_kept(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    read = to_array(relay.Constant(tvm.nd.array(array)))
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)
    again = to_constant(read)
    assert again.data.dtype == dtype
    np.testing.assert_array_equal(again.data.numpy(), array)


def test_nothing_is_copied_on_the_way_through() -> None:
    constant = relay.Constant(tvm.nd.array(np.ones((4, 4), "float32")))
    assert to_constant(to_array(constant)).data.same_as(constant.data)


def test_a_part_of_a_constant_is_a_constant_of_its_own() -> None:
    constant = relay.Constant(tvm.nd.array(np.arange(16, dtype="float32").reshape(4, 4)))
    array = to_array(constant)
    for part in (array[1:3], array.reshape(16), array.view("int32")):
        made = to_constant(part)
        assert not made.data.same_as(constant.data)
        np.testing.assert_array_equal(made.data.numpy(), part)


def test_a_constant_that_others_read_cannot_be_written() -> None:
    array = to_array(relay.Constant(tvm.nd.array(np.ones(3, "float32"))))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2


def test_the_memory_outlives_the_constant() -> None:
    expected = np.arange(1 << 16, dtype="float32")
    array = to_array(relay.Constant(tvm.nd.array(expected)))
    for _ in range(4):
        tvm.nd.array(np.zeros_like(expected))
    np.testing.assert_array_equal(array, expected)


def test_what_numpy_does_not_know_says_so() -> None:
    data = tvm.nd.empty((2,), "bfloat16")
    with pytest.raises(NotAnArrayError, match="a constant of bfloat16"):
        to_array(relay.Constant(data))
