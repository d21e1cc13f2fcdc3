from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.half_models import NotInHalvesError, in_halves

OPSET = helper.make_opsetid("", 17)


def _model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, np.ndarray],
    *,
    shape: tuple[int, ...] = (2, 4),
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(shape))
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "halves", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[OPSET], ir_version=8)


def _product() -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["y"]),
    ]
    weights = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    return _model(nodes, {"w": weights, "b": np.float32([1e38, -1e38, 1])})


@pytest.mark.parametrize("casts_ends", [True, False])
def test_a_model_computes_in_halves(casts_ends: bool) -> None:
    model = _product()
    before = model.SerializeToString()
    made = in_halves(model, casts_ends=casts_ends)
    assert model.SerializeToString() == before
    onnx.checker.check_model(made, full_check=True)
    kind = "float32" if casts_ends else "float16"
    given = {"x": np.ones((2, 4), kind)}
    (found,) = ReferenceEvaluator(made).run(None, given)
    assert found.dtype == kind
    arrays = [numpy_helper.to_array(tensor) for tensor in made.graph.initializer]
    assert {str(array.dtype) for array in arrays} == {"float16"}
    # Too large for the type is its largest number.
    np.testing.assert_array_equal(arrays[1], np.float16([65504, -65504, 1]))


def test_constants_and_casts_are_narrowed() -> None:
    value = numpy_helper.from_array(np.float32([1, 2, 3, 4]))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Cast", ["whole"], ["back"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["back", "c"], ["y"]),
    ]
    made = in_halves(_model(nodes, {}))
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT16


def test_where_to_resize_to_stays_float32_and_others_read_halves() -> None:
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["large"], mode="nearest"),
        helper.make_node("Add", ["large", "scales"], ["y"]),
    ]
    scales = np.float32([1, 1, 2, 2])
    made = in_halves(_model(nodes, {"scales": scales}, shape=(1, 1, 2, 2)))
    onnx.checker.check_model(made, full_check=True)
    kinds = {tensor.name: tensor.data_type for tensor in made.graph.initializer}
    assert kinds == {"scales": TensorProto.FLOAT16, "scales/single": TensorProto.FLOAT}


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            [
                helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT8),
                helper.make_node("DequantizeLinear", ["whole", "s"], ["y"]),
            ],
            "DequantizeLinear gives no halves as output 0",
        ),
        (
            [
                helper.make_node("QuantizeLinear", ["x", "s"], ["whole"]),
                helper.make_node("Cast", ["whole"], ["y"], to=TensorProto.FLOAT),
            ],
            "QuantizeLinear takes no halves as input 0",
        ),
    ],
)
def test_operators_without_halves_are_refused(nodes: list[onnx.NodeProto], reason: str) -> None:
    with pytest.raises(NotInHalvesError, match=reason):
        in_halves(_model(nodes, {"s": np.float32(0.5)}))
