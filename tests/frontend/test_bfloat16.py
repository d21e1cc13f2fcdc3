"""ONNX models in bfloat16: imported, built, run, and held to ONNX Runtime's float32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import floats
from tvm_fusionx.errors import InputError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.inputs import check_inputs, inputs_of, random_inputs
from tvm_fusionx.report.verify.reference import run_onnxruntime

BRAIN = TensorProto.BFLOAT16
TARGET = "llvm -mcpu=native"


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return floats(*shape, seed=seed).astype(ml_dtypes.bfloat16)


def _model(
    nodes: list[Any], given: dict[str, Any], constants: dict[str, Any], rank: int = 1
) -> Any:
    """Return a model that gives ``y``; initializers are listed as integers where they are small."""
    tensors = []
    for name, array in constants.items():
        tensor = numpy_helper.from_array(array, name)
        if array.dtype == ml_dtypes.bfloat16 and array.size < 8:
            bits = array.view("uint16").ravel().tolist()
            tensor = TensorProto(name=name, data_type=BRAIN, dims=array.shape, int32_data=bits)
        tensors.append(tensor)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in given.items()
    ]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info("y", BRAIN, [None] * rank)], tensors
    )
    opsets = [helper.make_opsetid("", 22)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _network() -> tuple[Any, dict[str, np.ndarray]]:
    half = helper.make_tensor("v", BRAIN, [1], [0.5])
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Constant", [], ["k"], value=helper.make_tensor("k", BRAIN, [], [1.5])),
        helper.make_node("Mul", ["f", "k"], ["scaled"]),
        helper.make_node("ConstantOfShape", ["size"], ["filled"], value=half),
        helper.make_node("Add", ["scaled", "filled"], ["moved"]),
        helper.make_node("LayerNormalization", ["moved", "s", "t"], ["n"]),
        helper.make_node("Gelu", ["n"], ["e"]),
        helper.make_node("MatMul", ["e", "m"], ["p"]),
        helper.make_node("Cast", ["p"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["again"], to=BRAIN),
        helper.make_node("Softmax", ["again"], ["y"]),
    ]
    given = {"x": _numbers(2, 3, 8, 8)}
    constants = {
        "w": _numbers(16, 3, 3, 3, seed=1),
        "b": _numbers(16, seed=2),
        "size": np.array([2, 16], "int64"),
        "s": _numbers(16, seed=3),
        "t": _numbers(16, seed=4),
        "m": _numbers(16, 5, seed=5),
    }
    return _model(nodes, given, constants, 2), given


@pytest.fixture(scope="module")
def network() -> tuple[Any, dict[str, np.ndarray]]:
    model, given = _network()
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model), full_check=True)
    return model, given


@pytest.mark.slow
def test_a_network_is_verified_block_by_block_and_against_float32(network: Any) -> None:
    model, given = network
    mod, params = from_onnx(model)
    report = fx.verify(mod, params, given, TARGET, model)
    assert report.ok, report
    assert report.reference == "ONNX Runtime"
    assert report.end_to_end_tolerance == 2.0**-7


def test_outputs_and_weights_are_bfloat16(network: Any) -> None:
    model, given = network
    mod, params = from_onnx(model)
    library = fx.build(mod, TARGET, params=params, executor="vm")
    (found,) = library.run(**given)
    assert found.dtype == ml_dtypes.bfloat16
    (wanted,) = run_onnxruntime(model.SerializeToString(), given)
    assert np.abs(found.astype("float32") - wanted).max() <= 2.0**-7 * wanted.max()


def test_arrays_may_be_the_bits_of_numbers() -> None:
    mod, _ = from_onnx(_model([helper.make_node("Relu", ["x"], ["y"])], {"x": _numbers(3)}, {}))
    specs = inputs_of(mod)
    for each in (_numbers(3), _numbers(3).view("uint16"), _numbers(3).view("V2")):
        np.testing.assert_array_equal(check_inputs({"x": each}, specs)["x"], _numbers(3))
    assert random_inputs(specs)["x"].dtype == ml_dtypes.bfloat16
    with pytest.raises(InputError, match=r"bfloat16.*float32.*ml_dtypes.*uint16"):
        check_inputs({"x": np.ones(3, "float32")}, specs)


def test_what_is_known_is_computed_in_float32() -> None:
    ones = np.ones(4096, ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("ReduceSum", ["ones"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    mod, _ = from_onnx(_model(nodes, {"x": _numbers(1)}, {"ones": ones}))
    (call,) = [mod["main"].body]
    (total,) = [arg.data.numpy() for arg in call.args if hasattr(arg, "data")]
    # In its own arithmetic 256 + 1 is 256.
    assert total.view(ml_dtypes.bfloat16).astype("float32") == 4096


def test_a_bias_of_float32_serves() -> None:
    given = {"x": _numbers(1, 2, 4, 4)}
    constants = {"w": _numbers(3, 2, 1, 1, seed=1), "b": floats(3, seed=2)}
    model = _model([helper.make_node("Conv", ["x", "w", "b"], ["y"])], given, constants, 4)
    mod, _ = from_onnx(model)
    assert mod["main"].body.checked_type.dtype == "bfloat16"


@pytest.mark.parametrize("op_type", ["Selu", "Celu", "HardSwish", "Softplus", "ReduceMean"])
def test_operators_with_numbers_of_their_own_see_float32(op_type: str) -> None:
    mod, _ = from_onnx(
        _model([helper.make_node(op_type, ["x"], ["y"])], {"x": _numbers(4, 4)}, {}, 2)
    )
    text = str(mod)
    assert 'cast(%x, dtype="float32")' in text
    assert mod["main"].body.checked_type.dtype == "bfloat16"


def test_places_stay_whole_numbers() -> None:
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["values", "places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=BRAIN),
        helper.make_node("Add", ["values", "numbers"], ["y"]),
    ]
    given, constants = {"x": _numbers(3, 8)}, {"k": np.array([2], "int64")}
    mod, params = from_onnx(_model(nodes, given, constants, 2))
    (found,) = fx.build(mod, TARGET, params=params, executor="vm").run(**given)
    order = np.argsort(-given["x"].astype("float32"), axis=1, kind="stable")[:, :2]
    values = np.take_along_axis(given["x"], order, 1).astype("float32")
    np.testing.assert_array_equal(found, (values + order).astype(ml_dtypes.bfloat16))
