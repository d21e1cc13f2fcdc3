from __future__ import annotations

from typing import Any

import pytest
from onnx import helper

from tests.frontend.small_models import model, value
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.schemas import (
    defaults_of,
    read_attributes,
    schema_of,
    why_not_of_schema,
)


def test_a_definition_is_that_of_the_opset() -> None:
    assert schema_of("Relu", "", 13).since_version == 13
    assert schema_of("Relu", "ai.onnx", 17).since_version == 14
    assert schema_of("Relu", "com.example", 1) is None
    assert schema_of("NoSuch", "", 17) is None


def test_defaults_come_from_the_definition() -> None:
    defaults = defaults_of(schema_of("Gemm", "", 13))
    assert defaults == {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    assert defaults_of(None) == {}


def test_attributes_are_decoded() -> None:
    proto = helper.make_node("Op", [], [], a=1, b=[1.5], c="text", d=["x", "y"])
    assert read_attributes(proto) == {"a": 1, "b": [1.5], "c": "text", "d": ["x", "y"]}


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "attributes", "expected"),
    [
        ("Elu", ["x"], ["y"], {"alpha": 0.5}, None),
        ("Elu", ["x"], ["y"], {"alfa": 0.5}, "attributes among: alpha"),
        ("Elu", ["x"], ["y"], {"alpha": 1}, "attribute 'alpha' of type FLOAT"),
        ("Concat", ["x", "x"], ["y"], {}, "the attribute 'axis', which has no default"),
        ("Elu", ["x", "x"], ["y"], {}, "1 inputs"),
        ("Add", ["x"], ["y"], {}, "2 inputs"),
        ("Add", ["x", ""], ["y"], {}, "input 'B', which is not optional"),
        ("Elu", ["x"], ["y", "z"], {}, "1 outputs"),
        ("Clip", ["x", "", ""], ["y"], {}, None),
        ("Concat", ["x"] * 9, ["y"], {"axis": 0}, None),
    ],
)
def test_a_node_that_disobeys_its_definition(
    op_type: str, inputs: Any, outputs: Any, attributes: Any, expected: str | None
) -> None:
    proto = helper.make_node(op_type, inputs, outputs, **attributes)
    why = why_not_of_schema(proto, schema_of(op_type, "", 17))
    assert why is None if expected is None else why is not None and why[0].startswith(expected)
    assert why_not_of_schema(proto, None) is None


def test_a_misspelt_attribute_is_no_silent_default() -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], name="act", alhpa=0.5)
    given = model([node], [value("x", [2])], ["y"])
    with pytest.raises(
        UnsupportedOperatorError, match=r"'act'.*alpha; found the attribute 'alhpa'"
    ):
        from_onnx(given)
