"""The table of converters: ONNX operator -> function from a node to Relay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm_fusionx.frontend.binding import is_bindable
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


@dataclass(frozen=True)
class OpenConverter:
    """How an operator is converted where a shape depends on the data."""

    convert: Convert
    through: int
    """As for :class:`Converter`."""
    deciding: tuple[int, ...]
    """Inputs whose numbers decide the shape of the result."""
    selects: bool
    """Whether the operator is there to select by data, so that nobody would bind its inputs."""


OPEN_CONVERTERS: dict[str, OpenConverter] = {}


def open_converter(
    *op_types: str, through: int, deciding: tuple[int, ...] = (), selects: bool = False
) -> Callable[[Convert], Convert]:
    """Register a function for `op_types` where an input's shape, or the result's, is not known."""

    def register(function: Convert) -> Convert:
        for op_type in op_types:
            OPEN_CONVERTERS[op_type] = OpenConverter(function, through, deciding, selects)
        return function

    return register


def open_way(node: Node) -> OpenConverter | None:
    """Return the converter for shapes that depend on the data, where `node` needs it.

    Where sizes or flags decide that a person could bind, the static converter says so instead: with
    them bound the whole model is static, and fast.
    """
    way = OPEN_CONVERTERS.get(node.op_type)
    if way is None or node.version > way.through:
        return None
    if any(node.is_open(position) for position in range(len(node.inputs))):
        return way
    computed = [position for position in way.deciding if node.is_computed(position)]
    if any(way.selects or not is_bindable(node.expr(position)) for position in computed):
        return way
    return None
