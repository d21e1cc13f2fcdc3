"""Constants keep their memory on the way through a graph."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.ecg.relay_constants import (
    NotAnArrayError,
    cast_constant,
    to_array,
    to_constant,
)


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
    data = tvm.nd.empty((2,), "e4m3_float8")
    with pytest.raises(NotAnArrayError, match="a constant of e4m3_float8"):
        to_array(relay.Constant(data))


def test_bfloat16_passes_through_without_a_copy() -> None:
    constant = cast_constant(relay.Constant(tvm.nd.array(np.float32([1.5, -2]))), "bfloat16")
    array = to_array(constant)
    assert array.dtype == "bfloat16"
    assert array.astype("float32").tolist() == [1.5, -2]
    assert to_constant(array).data.same_as(constant.data)
    assert not to_constant(array[:1]).data.same_as(constant.data)


NUMBERS = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.389e38, 70000.0, 1e-40, np.inf, -np.inf]


def _cast(numbers: list[float], *dtypes: str) -> np.ndarray:
    """Return numbers after casts from float32 to one type after the other."""
    constant = relay.Constant(tvm.nd.array(np.float32(numbers)))
    for dtype in dtypes:
        constant = cast_constant(constant, dtype)
        assert str(constant.data.dtype) == dtype
    return constant.data.numpy()


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_constants_are_cast_as_numpy_casts_them(dtype: str) -> None:
    numbers = [each for each in NUMBERS if dtype != "int32" or abs(each) < 1e6]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(_cast(numbers, dtype), np.float32(numbers).astype(dtype))


def test_a_bfloat16_is_the_nearest_and_of_two_the_even_one() -> None:
    found = _cast(NUMBERS, "bfloat16", "float32")
    # 1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6.
    expected = [0, -0.0, 1, 1, 1 + 2.0**-6, 2.0**128 - 2.0**120, 70144, found[7], np.inf, -np.inf]
    np.testing.assert_array_equal(found, np.float32(expected))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.float32(expected)))
    assert abs(found[7] - 1e-40) <= 2.0**-134
    assert np.isinf(_cast([3.4e38], "bfloat16", "float32"))


def test_no_number_stays_none() -> None:
    bits = np.array([0x7F800001, 0xFFC00000], "uint32")
    found = _cast(bits.view("float32").tolist(), "bfloat16", "float32")
    assert np.isnan(found).all()
    low = relay.Constant(tvm.nd.array(bits.view("float32")))
    assert np.isnan(cast_constant(cast_constant(low, "bfloat16"), "float32").data.numpy()).all()


def test_a_constant_of_the_type_is_itself() -> None:
    constant = relay.Constant(tvm.nd.array(np.ones(3, "float16")))
    assert cast_constant(constant, "float16").same_as(constant)


def test_a_bfloat16_of_any_shape() -> None:
    made = cast_constant(relay.Constant(tvm.nd.array(np.full((2, 3), 3.0, "float32"))), "bfloat16")
    assert made.data.shape == (2, 3)
    np.testing.assert_array_equal(cast_constant(made, "float64").data.numpy(), np.full((2, 3), 3.0))
    scalar = cast_constant(relay.const(2.0), "bfloat16")
    assert cast_constant(scalar, "float32").data.numpy() == 2
