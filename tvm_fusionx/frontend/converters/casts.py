"""Changes of element type."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.model_inputs import dtype_of
from tvm_fusionx.frontend.node import Node


def cast(x: Any, source: str, target: str) -> Any:
    """Return `x` as `target`, keeping a value that is already of that type."""
    if source == target:
        return x
    if target == "bool":
        return relay.not_equal(x, scalar(0, source))
    if source == "float64" and target == "float16":
        # LLVM calls a runtime routine for this step that is not linked, and reads garbage.
        x = relay.cast(x, "float32")
    return relay.cast(x, target)


@converter("Cast", through=21, because="TVM reads bfloat16, float8 and int4 as other types")
def convert_cast(node: Node) -> Any:
    target = dtype_of(int(node.attribute("to")), f"Cast node {node.name!r}")
    return cast(node.expr(), node.dtype(), target)


@converter("CastLike", through=21)
def convert_cast_like(node: Node) -> Any:
    return cast(node.expr(), node.dtype(), node.dtype(1))
