"""Root mean square normalization."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.element_types import dtype_of
from tvm_fusionx.frontend.node import Node

EPSILON = 1e-5
STASH_IN_SINGLE = 1


def rms_normalize(x: Any, axes: list[int], epsilon: float, dtype: str, stash_dtype: str) -> Any:
    """Return x / sqrt(mean(x * x) + epsilon) over `axes`, computed in `stash_dtype`."""
    wide = cast(x, dtype, stash_dtype)
    mean = relay.mean(wide * wide, axes, True)
    return cast(wide / relay.sqrt(mean + scalar(epsilon, stash_dtype)), stash_dtype, dtype)


@converter("RMSNormalization", through=23)
def convert_rms_normalization(node: Node) -> Any:
    """Divide by the root mean square over the axes from `axis` on; scale."""
    dtype, scaled_dtype = node.dtype(), node.dtype(1)
    stash_dtype = dtype_of(
        int(node.attribute("stash_type", STASH_IN_SINGLE)), f"stash_type of node {node.name!r}"
    )
    if dtype == "float64" or stash_dtype not in ("float32", "float64"):
        # Of doubles a mean in single would be the worse, and ONNX Runtime takes none.
        stash_dtype = dtype
    axes = list(range(node.axis(-1), node.rank()))
    epsilon = float(node.attribute("epsilon", EPSILON))
    normal = rms_normalize(node.expr(), axes, epsilon, dtype, stash_dtype)
    return cast(normal, dtype, scaled_dtype) * node.expr(1)
