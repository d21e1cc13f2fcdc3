from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.small_models import dynamic_model, model, value
from tvm_fusionx.errors import InputError, ShapeError, UnsupportedOperatorError
from tvm_fusionx.frontend.model_inputs import check_constants, resolve_inputs

STATIC = {"x": (2, 3, 5), "bias": (5,)}


def test_sizes_come_from_the_file_and_the_caller() -> None:
    assert resolve_inputs(dynamic_model(), STATIC, None, {}) == {
        "x": ((2, 3, 5), "float32"),
        "bias": ((5,), "float32"),
    }


def test_inputs_with_an_initializer_are_weights() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    given = model([node], [value("x", [2]), value("w", [2])], ["y"], {"w": np.ones(2, "float32")})
    assert list(resolve_inputs(given, None, None, {})) == ["x"]


@pytest.mark.parametrize("argument", ["shape", "dtype", "constants"])
def test_a_wrong_name_is_answered_with_the_right_ones(argument: str) -> None:
    arguments = {"shape": dict(STATIC), "dtype": None, "constants": {}}
    extra = {"shape": (1,), "dtype": "float32", "constants": np.zeros(1, "float32")}[argument]
    arguments[argument] = {**(arguments[argument] or {}), "pixels": extra}
    with pytest.raises(InputError, match=r"'pixels'.*expected one of .*'x', 'bias'"):
        resolve_inputs(dynamic_model(), **arguments)


def test_a_size_the_file_fixes_cannot_be_changed() -> None:
    with pytest.raises(ShapeError, match=r"'x'.*\[batch,3,\?\] as the model declares.*\[2,4,5\]"):
        resolve_inputs(dynamic_model(), {"x": (2, 4, 5), "bias": (5,)}, None, {})


def test_a_rank_the_file_fixes_cannot_be_changed() -> None:
    with pytest.raises(ShapeError, match=r"found \[2,3\]"):
        resolve_inputs(dynamic_model(), {"x": (2, 3), "bias": (5,)}, None, {})


@pytest.mark.parametrize("dims", [(-1, 3, 5), (2, 3, 5.0)], ids=["negative", "fraction"])
def test_a_size_is_a_whole_number(dims: tuple[object, ...]) -> None:
    with pytest.raises(ShapeError, match="integers, none negative"):
        resolve_inputs(dynamic_model(), {"x": dims, "bias": (5,)}, None, {})


def test_an_open_rank_is_an_open_shape() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    given = model([node], [value("x", None)], ["y"])
    with pytest.raises(ShapeError, match="input 'x' of unknown rank"):
        resolve_inputs(given, None, None, {})


def test_a_minus_one_is_an_open_dimension() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(ShapeError, match=r"dimension 0 \(\?\)"):
        resolve_inputs(model([node], [value("x", [-1, 4])], ["y"]), None, None, {})


@pytest.mark.parametrize("dtype", ["float16", {"x": "int8"}], ids=["one for all", "by name"])
def test_a_wrong_dtype_is_refused(dtype: object) -> None:
    with pytest.raises(InputError, match="'x': expected float32 as the model declares"):
        resolve_inputs(dynamic_model(), STATIC, dtype, {})


def test_one_dtype_speaks_for_floating_inputs_only() -> None:
    node = helper.make_node("Gather", ["x", "ids"], ["y"])
    infos = [value("x", [3]), value("ids", [2], TensorProto.INT64)]
    resolved = resolve_inputs(model([node], infos, ["y"]), None, "float32", {})
    assert resolved["ids"] == ((2,), "int64")


def test_strings_and_sequences_are_refused() -> None:
    node = helper.make_node("Identity", ["x"], ["y"])
    with pytest.raises(UnsupportedOperatorError, match="element type STRING"):
        resolve_inputs(model([node], [value("x", [2], TensorProto.STRING)], ["y"]), None, None, {})
    sequence = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])
    with pytest.raises(UnsupportedOperatorError, match="sequence_type"):
        resolve_inputs(model([node], [sequence], ["y"]), None, None, {})


def test_constants_must_have_the_declared_type() -> None:
    with pytest.raises(InputError, match=r"float32 as the model declares.*float64.*astype"):
        check_constants(dynamic_model(), {"bias": np.zeros(5)})
    with pytest.raises(ShapeError, match="'bias'"):
        check_constants(dynamic_model(), {"bias": np.zeros((5, 1), "float32")})
    arrays = check_constants(dynamic_model(), {"bias": np.zeros(5, "float32")})
    assert list(arrays) == ["bias"]
