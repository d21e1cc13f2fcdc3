"""Constants of the model that are nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

# Attribute -> dtype of what it holds.
NUMBERS = {
    "value_float": "float32",
    "value_floats": "float32",
    "value_int": "int64",
    "value_ints": "int64",
}


@converter("Constant", through=25)
def convert_constant(node: Node) -> Any:
    """Return the numbers of an attribute."""
    if len(node.attributes) != 1:
        raise node.refuse("one attribute", str(sorted(node.attributes)))
    ((name, value),) = node.attributes.items()
    if name == "value":
        tensor = Tensor.from_array(value)
        tensor.element = node.elements.get("value", tensor.element)
        return tensor
    if name not in NUMBERS:
        raise node.refuse("numbers", f"attribute {name!r}")
    return np.asarray(value, NUMBERS[name])
