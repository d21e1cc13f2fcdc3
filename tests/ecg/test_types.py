from __future__ import annotations

import pytest

from tvm_fusionx.ecg import TensorType


@pytest.mark.parametrize(
    ("dtype", "bytes_"),
    [("float32", 24), ("float16", 12), ("int64", 48), ("uint8", 6), ("bool", 6), ("int4", 3)],
)
def test_bytes_follow_from_shape_and_element_type(dtype: str, bytes_: int) -> None:
    assert TensorType((2, 3), dtype).bytes == bytes_


def test_part_of_a_byte_is_a_byte() -> None:
    assert TensorType((3,), "int4").bytes == 2


def test_a_scalar_has_one_element_and_an_empty_tensor_none() -> None:
    assert TensorType((), "float32").elements == 1
    assert TensorType((4, 0), "float32").elements == 0


@pytest.mark.parametrize(
    ("dtype", "is_float"),
    [("float16", True), ("bfloat16", True), ("int32", False), ("bool", False)],
)
def test_is_float(dtype: str, is_float: bool) -> None:
    assert TensorType((1,), dtype).is_float is is_float


def test_types_are_equal_by_value_and_print_short() -> None:
    assert TensorType((2, 3), "float32") == TensorType((2, 3), "float32")
    assert str(TensorType((2, 3), "float32")) == "float32[2, 3]"
