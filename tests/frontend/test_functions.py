from __future__ import annotations

from onnx import helper

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.frontend.functions import expand_function, has_function_body


def test_only_operators_defined_by_others_have_a_body() -> None:
    assert has_function_body("CenterCropPad", "", 18)
    assert not has_function_body("Conv", "", 22)
    assert not has_function_body("Mystery", "com.example", 1)


def test_attributes_and_defaults_replace_references() -> None:
    node = helper.make_node("Elu", ["x"], ["y"])
    body, opsets = expand_function(node, [helper.make_tensor_type_proto(1, [2])], {"": 18})
    assert opsets[""] >= 18
    assert not any(a.ref_attr_name for n in body.node for a in n.attribute)
    alphas = [a.f for n in body.node for a in n.attribute if n.op_type == "Constant" and a.f]
    assert alphas == [1.0]


def test_an_operator_is_translated_through_its_body() -> None:
    x = floats(3, 6, 5)
    import numpy as np

    size = np.array([4, 3], "int64")
    check([Case("CenterCropPad", [x, size], {"axes": [1, 2]}, known=[1])])
