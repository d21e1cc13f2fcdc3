"""Changes of element type."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.element_types import LIMITS, dtype_of
from tvm_fusionx.frontend.node import Node


def cast(x: Any, source: str, target: str) -> Any:
    """Return `x` as `target`, keeping a value that is already of that type."""
    if source == target:
        return x
    if target == "bool":
        is_true = relay.not_equal(x, scalar(0, source))
        # What is no number is not zero either; LLVM's comparison of it is never true.
        return relay.logical_or(is_true, relay.isnan(x)) if is_floating(source) else is_true
    if source == "float64" and target in ("float16", "bfloat16"):
        # LLVM calls a runtime routine for this step that is not linked, and reads garbage.
        x = relay.cast(x, "float32")
    return relay.cast(x, target)


def cast_to_element(node: Node, element: int) -> Any:
    """Return the first input as an ONNX element type.

    Integers below eight bits are rounded as ONNX Runtime does, halves away from zero, and keep
    their low bits: what is beyond the limits wraps around.
    """
    target = dtype_of(element, f"{node.op_type} node {node.name!r}")
    if element not in LIMITS or node.tensor(0).element == element:
        return cast(node.expr(), node.dtype(), target)
    low, high = LIMITS[element]
    x, dtype = node.expr(), node.dtype()
    if is_floating(dtype):
        x, dtype = relay.round(cast(x, dtype, "float32")), "float32"
    wide = cast(x, dtype, "int32")
    kept = relay.bitwise_and(wide - scalar(low, "int32"), scalar(high - low, "int32"))
    return relay.cast(kept + scalar(low, "int32"), target)


@converter("Cast", through=28, because="TVM reads bfloat16, float8 and int4 as other types")
def convert_cast(node: Node) -> Any:
    """Convert to the element type of an attribute."""
    return cast_to_element(node, int(node.attribute("to")))


@converter("CastLike", through=25)
def convert_cast_like(node: Node) -> Any:
    """Convert to the element type of the second input."""
    return cast_to_element(node, node.tensor(1).element)


@converter("BitCast", through=26)
def convert_bit_cast(node: Node) -> Any:
    """Read the same bits as an element type of the same width."""
    target = dtype_of(int(node.attribute("to")), f"BitCast node {node.name!r}")
    source = node.dtype()
    if np.dtype(source).itemsize != np.dtype(target).itemsize:
        raise node.refuse(f"an element type as wide as {source}", target)
    if source == target:
        return node.tensor(0)
    if "bool" in (source, target):
        return cast(node.expr(), source, target)  # a boolean is a byte of 0 or 1
    known = node.tensor(0).array
    if known is not None:
        return np.ascontiguousarray(known).view(target).reshape(node.shape())
    return relay.reinterpret(node.expr(), target)
