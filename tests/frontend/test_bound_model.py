from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.small_models import model, value
from tvm_fusionx.errors import InputError, ShapeError
from tvm_fusionx.frontend.bound_model import bound_model


def _given() -> Any:
    inputs = [
        value("x", [2]),
        value("rate", [], TensorProto.INT64),
        value("flag", [1], TensorProto.BOOL),
        value("scale", ["n"]),
    ]
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    return model(nodes, inputs, ["y"])


def test_inputs_become_initializers_of_their_own_type() -> None:
    given = _given()
    bound = bound_model(given, {"rate": 16000.0, "flag": True, "scale": [1, 2.5]})
    assert [info.name for info in bound.graph.input] == ["x"]
    arrays = {t.name: numpy_helper.to_array(t) for t in bound.graph.initializer}
    assert {name: (str(a.dtype), a.tolist()) for name, a in arrays.items()} == {
        "rate": ("int64", 16000),
        "flag": ("bool", [True]),
        "scale": ("float32", [1.0, 2.5]),
    }
    assert len(given.graph.input) == 4


def test_one_number_does_for_a_vector_of_one() -> None:
    bound = bound_model(_given(), {"scale": 3, "rate": [7]})
    shapes = {t.name: list(t.dims) for t in bound.graph.initializer}
    assert shapes == {"scale": [1], "rate": []}


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        ({"gone": 1}, InputError, "'gone'.*'x', 'rate', 'flag', 'scale'"),
        ({"rate": 1.5}, InputError, "'rate'.*type int64.*found 1.5"),
        ({"rate": 2**70}, InputError, "'rate'"),
        ({"flag": 2}, InputError, "'flag'"),
        ({"x": "text"}, InputError, "'x'.*'text'"),
        ({"x": [[1], [2, 3]]}, InputError, "'x'"),
        ({"x": None}, InputError, "'x'"),
        ({"x": [1, 2, 3]}, ShapeError, r"'x'.*\[2\] as the model declares"),
    ],
)
def test_values_that_do_not_fit(values: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        bound_model(_given(), values)


def test_floats_are_rounded_to_their_type() -> None:
    bound = bound_model(_given(), {"scale": [0.1]})
    found = numpy_helper.to_array(bound.graph.initializer[0])
    assert found.tolist() == [float(np.float32(0.1))]
