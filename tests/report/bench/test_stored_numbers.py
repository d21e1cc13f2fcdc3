from __future__ import annotations

import numpy as np
import pytest
import tvm

from tvm_fusionx.report.bench.stored_numbers import count_saturated, numbers_of, step_of, stored

NUMBERS = np.float32([0, -1.5, 65504, 3e38, -np.inf, np.inf])


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
def test_numbers_come_as_they_lie(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    found = numbers_of(tvm.nd.array(array))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_bfloat16_comes_as_float32() -> None:
    array = stored(NUMBERS, "bfloat16")
    assert (array.dtype, array.shape) == ("bfloat16", (6,))
    found = numbers_of(array)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, NUMBERS, rtol=2.0**-8)


def test_what_is_stored_is_rounded_to_the_nearest() -> None:
    third = np.float32([1 / 3])
    assert numbers_of(stored(third, "float16"))[0] == np.float16(1 / 3)
    assert abs(numbers_of(stored(third, "bfloat16"))[0] - 1 / 3) <= 2.0**-9 / 3
    assert numbers_of(stored(third, "float32"))[0] == third[0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_neighbours_are_a_step_apart_at_most(dtype: str) -> None:
    bits = np.arange(0x3C00, 0x4400, dtype="uint16")
    raw = tvm.nd.empty(bits.shape, dtype)
    raw.copyfrom(bits if dtype == "bfloat16" else bits.view("float16"))
    numbers = numbers_of(raw).astype("float64")
    apart = np.diff(numbers) / numbers[:-1]
    assert 0 < apart.max() <= step_of(dtype) < 2.01 * apart.min()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool"])
def test_other_types_are_held_to_their_own_tolerance(dtype: str) -> None:
    assert step_of(dtype) == 0


def test_numbers_at_the_end_of_a_type_are_counted() -> None:
    numbers = np.array([65504, -65504, 7e4, 65503, np.inf, np.nan, 0], "float32")
    assert count_saturated(numbers, "float16") == 3
    assert count_saturated(np.float16([65504, 1]), "float16") == 1
    assert count_saturated(numbers, "bfloat16") == 0
    assert count_saturated(np.float32([-3.4e38, 3.38e38]), "bfloat16") == 1
    assert count_saturated(numbers, "float32") == 0
