from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.data_models import floats, looping, made, suppressing
from tests.tiny_models import TARGET
from tvm_fusionx.report.verify.verify_machine import plain_outputs, static_beginning


def _model() -> object:
    """Return a product, and the places where it is positive: x [4, 8] to [4, 6], [2, ?]."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Softmax", ["product"], ["y"]),
        helper.make_node("Greater", ["y", "limit"], ["flags"]),
        helper.make_node("NonZero", ["flags"], ["places"]),
    ]
    weights = {"w": floats(8, 6), "limit": np.float32(0.2)}
    return made(nodes, {"x": floats(4, 8)}, ["y", "places"], weights)


@pytest.mark.slow
@pytest.mark.parametrize("beside", ["ort", "tvm"])
def test_outputs_and_the_blocks_before_the_data_decides_are_checked(beside: str) -> None:
    given = _model()
    mod, params = fx.from_onnx(given)
    report = fx.verify(mod, params, {"x": floats(4, 8)}, TARGET, given if beside == "ort" else None)
    assert report.ok
    assert len(report.end_to_end) == 2
    assert report.blocks
    assert report.reference == ("ONNX Runtime" if beside == "ort" else "TVM's own kernels")


def test_a_wrong_reference_is_told() -> None:
    mod, params = fx.from_onnx(looping())
    wrong = [np.zeros(4, "float32"), np.zeros(3, "float32")]
    report = fx.verify(mod, params, {"x": np.ones(4, "float32")}, TARGET, wrong)
    assert not report.ok


def test_what_comes_first_is_a_module_of_the_models_inputs() -> None:
    mod, _ = fx.from_onnx(_model())
    beginning = static_beginning(mod)
    assert beginning is not None
    assert [param.name_hint for param in beginning["main"].params] == ["x"]


def test_plain_kernels_give_the_same() -> None:
    mod, _ = fx.from_onnx(suppressing())
    given = {"b": np.abs(floats(1, 20, 4)), "s": np.abs(floats(1, 3, 20))}
    (plain,) = plain_outputs(mod, TARGET, given)
    np.testing.assert_array_equal(plain, fx.build(mod, TARGET).run(**given)[0])
