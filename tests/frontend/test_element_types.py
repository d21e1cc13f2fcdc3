from __future__ import annotations

import pytest
from onnx import TensorProto

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.element_types import DTYPES, ELEMENTS, dtype_of


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
