from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tvm_fusionx.tir.dot_call import dot, is_dot_call, register_dot, sides_of


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_dot()


def test_its_sides_are_told_apart() -> None:
    left, right = [tir.Var(f"a{i}", "int8") for i in range(4)], [tir.const(i) for i in range(4)]
    call = dot(left, right)
    assert call.dtype == "int32"
    for found, given in zip(sides_of(call), (left, right), strict=True):
        assert all(map(tvm.ir.structural_equal, found, given))


def test_another_expression_is_none() -> None:
    x = tir.Var("x", "float32")
    assert is_dot_call(dot([x], [x]))
    assert not is_dot_call(x * x)
    assert not is_dot_call(tir.exp(x))
