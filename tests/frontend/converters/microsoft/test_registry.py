from __future__ import annotations

from typing import Any

import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, floats, translate
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.contrib_schemas import Attribute, Schema, contrib_schemas
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, checked
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

SCHEMA = Schema(
    {
        "factor": Attribute("FLOAT", False, 1.0),
        "mode": Attribute("STRING", False, "up"),
        "accuracy_level": Attribute("INT", False, 0),
    },
    ("x", "bias?"),
    ("y", "mean?"),
)


def node(attributes: dict[str, Any], inputs: int = 1, outputs: int = 1) -> Node:
    tensors = [Tensor.from_array(floats(2, seed=i)) for i in range(inputs)]
    names = [f"in{i}" for i in range(inputs)]
    made = [f"out{i}" for i in range(outputs)]
    return Node("n", "test.Op", 1, attributes, tensors, made, names)


@pytest.fixture(autouse=True)
def schema(monkeypatch: pytest.MonkeyPatch) -> None:
    contrib_schemas.cache_clear()
    known = {**contrib_schemas(), "test.Op": SCHEMA}
    path = "tvm_fusionx.frontend.converters.microsoft.registry.contrib_schemas"
    monkeypatch.setattr(path, lambda: known)


def test_a_converter_sees_the_defaults() -> None:
    def convert(given: SchemaNode) -> Any:
        assert given.attribute("factor") == 1.0
        assert given.expects("mode", "up", "down") == "up"
        assert given.maybe("bias") is None
        return given.named("x")

    assert checked(convert)(node({}))[0].shape == (2,)


def test_what_nobody_read_is_refused() -> None:
    first = checked(lambda given: given.tensor(0))
    with pytest.raises(UnsupportedOperatorError, match=r"'factor' at its default, 1\.0; found 2"):
        first(node({"factor": 2.0}))
    with pytest.raises(UnsupportedOperatorError, match="no input 'bias'; found 'in1' for it"):
        first(node({}, inputs=2))
    with pytest.raises(UnsupportedOperatorError, match="no use of the output 'mean'; found 'out1'"):
        first(node({}, outputs=2))
    # A default written out says nothing, and a hint changes no number.
    assert first(node({"factor": 1.0, "accuracy_level": 4}))


def test_values_that_are_not_implemented_are_named() -> None:
    def convert(given: SchemaNode) -> Any:
        return given.expects("mode", "up", "down") and given.tensor(0)

    with pytest.raises(UnsupportedOperatorError, match="'mode' to be 'up' or 'down'; found 'left'"):
        checked(convert)(node({"mode": "left"}))


def test_a_misspelt_attribute_is_refused_in_a_model() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"'aplha' \(is it 'alpha'"):
        translate(Call("QuickGelu", [floats(2)], {"aplha": 1.0}))


def test_a_call_of_a_standard_operator() -> None:
    given = SchemaNode(node({"factor": 2.0}, inputs=2), SCHEMA)
    made = given.as_standard("Add", [given.tensor(0), None], given.attributes_named("factor"))
    assert (made.op_type, made.attribute("factor"), made.has(0), made.has(1)) == (
        "Add",
        2.0,
        True,
        False,
    )
