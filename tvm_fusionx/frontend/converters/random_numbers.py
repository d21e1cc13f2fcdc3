"""Random numbers, drawn once while compiling: each run of a library sees the same ones.

ONNX leaves the generator open, so no two runtimes agree on the numbers; but equal models have equal
ones here, on every machine.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.element_types import dtype_of
from tvm_fusionx.frontend.node import Node

# Beyond it they would be the greater part of a library.
MOST_NUMBERS = 1 << 26


def seed_of(node: Node) -> int:
    """Return the seed that a node gives, else one of its name: two nodes draw other numbers."""
    given = node.attributes.get("seed")
    if given is not None and np.isfinite(given):
        return int(np.float32(given).view(np.uint32))
    return zlib.crc32(node.name.encode("utf-8", errors="replace"))


def _draw(node: Node, shape: tuple[int, ...], dtype: str) -> Any:
    count = 1
    for dim in shape:
        count *= dim
    if any(dim < 0 for dim in shape) or count > MOST_NUMBERS:
        raise node.refuse(f"at most {MOST_NUMBERS} random numbers", f"shape {list(shape)}")
    generator = np.random.default_rng(seed_of(node))
    if node.op_type.startswith("RandomNormal"):
        mean, scale = float(node.attribute("mean")), float(node.attribute("scale"))
        return (generator.standard_normal(shape) * scale + mean).astype(dtype)
    low, high = float(node.attribute("low")), float(node.attribute("high"))
    return generator.uniform(low, high, shape).astype(dtype)


@converter("RandomNormal", "RandomUniform", through=22)
def convert_random(node: Node) -> Any:
    """Draw numbers of a shape."""
    dtype = dtype_of(int(node.attribute("dtype")), f"{node.op_type} node {node.name!r}")
    return _draw(node, tuple(int(dim) for dim in node.attribute("shape")), dtype)


@converter("RandomNormalLike", "RandomUniformLike", through=22)
def convert_random_like(node: Node) -> Any:
    """Draw numbers of the input's shape."""
    to = node.attribute("dtype")
    dtype = node.dtype() if to is None else dtype_of(int(to), f"node {node.name!r}")
    return _draw(node, node.shape(), dtype)
