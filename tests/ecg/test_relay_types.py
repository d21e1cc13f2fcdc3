from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import const, module, var
from tvm_fusionx.ecg import TensorType
from tvm_fusionx.ecg.graph import NO_ATTRIBUTES
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.ecg.relay_types import (
    DynamicTypeError,
    arguments,
    infer_types,
    relay_type,
    result_types,
    tensor_type,
)

MATRIX = TensorType((4, 8), "float32")


@pytest.mark.parametrize(
    "type_", [MATRIX, TensorType((), "int64"), TensorType((0, 3), "bool"), TensorType((2,), "int4")]
)
def test_types_go_to_relay_and_back(type_: TensorType) -> None:
    assert tensor_type(relay_type(type_)) == type_


def test_an_unknown_extent_is_refused_by_name() -> None:
    with pytest.raises(DynamicTypeError, match="unknown extent"):
        tensor_type(relay.TensorType((relay.Any(), 4), "float32"))


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(DynamicTypeError, match="not a tensor type"):
        tensor_type(relay.TupleType([relay_type(MATRIX)]))


def test_a_tuple_of_one_is_told_from_a_tensor() -> None:
    assert result_types(relay_type(MATRIX)) == ((MATRIX,), False)
    assert result_types(relay.TupleType([relay_type(MATRIX)])) == ((MATRIX,), True)


def test_arguments_are_grouped_as_the_call_wants_them() -> None:
    values = [var(name, 2) for name in "abcd"]
    first, middle, last = arguments(values, (None, 2, None))
    assert first.same_as(values[0])
    assert last.same_as(values[3])
    assert [field.name_hint for field in middle.fields] == ["b", "c"]


def test_relay_infers_results() -> None:
    assert infer_types("exp", NO_ATTRIBUTES, [MATRIX], (None,)) == ((MATRIX,), False)
    attrs = default_attributes("concatenate", axis=1)
    assert infer_types("concatenate", attrs, [MATRIX, MATRIX], (2,)) == (
        (TensorType((4, 16), "float32"),),
        False,
    )


def test_relay_infers_several_results() -> None:
    call = module(relay.split(var("x", 4, 8), 2, axis=1).astuple())["main"].body
    attrs = default_attributes("split", axis=1, indices_or_sections=2)
    half = TensorType((4, 4), "float32")
    assert infer_types(str(call.op.name), attrs, [MATRIX], (None,)) == ((half, half), True)


def test_a_result_that_depends_on_data_is_refused() -> None:
    with pytest.raises(DynamicTypeError, match="unknown extent"):
        infer_types("argwhere", NO_ATTRIBUTES, [MATRIX], (None,))


def test_const_and_var_of_the_tests_have_the_types_they_say() -> None:
    assert tensor_type(module(const(2, 3))["main"].ret_type) == TensorType((2, 3), "float32")
