from __future__ import annotations

from onnx import defs, helper

from tests.frontend.small_models import model, value
from tvm_fusionx.frontend import SHAPE_LIKE_INPUTS, inputs_needed_as_constants


def test_inputs_that_decide_a_shape_are_named() -> None:
    node = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    infos = [value("x", [4]), value("starts", [1]), value("ends", [1])]
    given = model([node], infos, ["y"], {"ends": [2]})
    assert inputs_needed_as_constants(given) == ["starts"]


def test_positions_exist_in_the_definitions() -> None:
    for op_type, positions in SHAPE_LIKE_INPUTS.items():
        if op_type == "Upsample":  # deprecated since opset 10
            continue
        assert max(positions) < defs.get_schema(op_type, defs.onnx_opset_version(), "").max_input, (
            op_type
        )
