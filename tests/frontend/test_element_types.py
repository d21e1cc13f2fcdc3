from __future__ import annotations

import pytest
from onnx import TensorProto

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.element_types import (
    DTYPES,
    ELEMENTS,
    LIMITS,
    STORED_WIDER,
    dtype_of,
    element_type_name,
)


def test_names_go_both_ways() -> None:
    assert all(ELEMENTS[dtype_of(element, "x")] == element for element in DTYPES)


def test_four_bit_integers_live_in_bytes() -> None:
    assert dtype_of(TensorProto.INT4, "x") == "int8"
    assert dtype_of(TensorProto.UINT4, "x") == "uint8"


@pytest.mark.parametrize("element", [TensorProto.STRING, TensorProto.COMPLEX64])
def test_other_types_are_refused_by_name(element: int) -> None:
    name = TensorProto.DataType.Name(element)
    with pytest.raises(UnsupportedOperatorError, match=f"input 'x'.*found element type {name}"):
        dtype_of(element, "input 'x'")


def test_a_type_that_onnx_has_not_is_refused_by_its_number() -> None:
    with pytest.raises(UnsupportedOperatorError, match="element type number 116"):
        dtype_of(116, "weights 'w'")


def test_integers_below_eight_bits_have_their_limits() -> None:
    named = {element_type_name(element): limits for element, limits in LIMITS.items()}
    assert named["INT4"] == (-8, 7)
    assert named["UINT4"] == (0, 15)
    assert set(LIMITS) <= set(STORED_WIDER)
