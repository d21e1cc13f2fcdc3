"""The table of converters: ONNX operator -> function from a node to Relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm_fusionx.frontend.node import Node

# What a converter returns: one output or a list of them, each a Relay expression, an array whose
# numbers are known, an already translated tensor, or None for an optional output not made.
Convert: TypeAlias = Callable[[Node], Any]


@dataclass(frozen=True)
class Converter:
    """One row of the table."""

    convert: Convert
    through: int
    """The newest definition of the operator that the function implements, as its opset version."""
    because: str
    """Which fault of TVM 0.19's own converter this one avoids; empty where it has none we know."""


CONVERTERS: dict[str, Converter] = {}


def converter(*op_types: str, through: int, because: str = "") -> Callable[[Convert], Convert]:
    """Register a function as the converter of `op_types`."""

    def register(function: Convert) -> Convert:
        for op_type in op_types:
            CONVERTERS[op_type] = Converter(function, through, because)
        return function

    return register
