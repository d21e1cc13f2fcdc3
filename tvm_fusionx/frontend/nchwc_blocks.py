"""How many channels lie beside one another in a file whose layouts ONNX Runtime has changed.

ONNX Runtime reorders the weights of convolutions for the vectors of the machine that saves the
file, and the file does not say how. Most files show it: by numbers of channels that only one block
divides, and by the zeros that fill a last block up. In the others all channels are multiples of
sixteen; ONNX Runtime means such files for machines like the one that wrote them, so the block is
taken that it would use here.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.frontend.tensors import array_of

logger = logging.getLogger(__name__)

DOMAIN = "com.microsoft.nchwc"
# ONNX Runtime's own, by the registers it finds: 256 bits or less, or NEON's many and 512 bits.
SMALL, LARGE = 8, 16

Array = np.ndarray[Any, Any]

_BLOCK: ContextVar[int] = ContextVar("channels side by side")


def is_in_rows(outputs: int, inputs: int, groups: int, block: int) -> bool:
    """Tell whether a convolution reads channels that lie apart: pictures, or one for each output.

    Its weights are then blocked by output channels only.
    """
    if groups > 1:
        return inputs == 1 and outputs == groups
    return inputs < block


def plain_weights(weights: Array, groups: int, block: int) -> Array:
    """Return the weights of a convolution in ONNX's order.

    Parameters
    ----------
    weights
        (outputs, inputs / groups, height, width) by its shape; in memory outputs are blocked, and
        inputs too unless they lie apart.
    """
    outputs, inputs, height, width = weights.shape
    if is_in_rows(outputs, inputs, groups, block):
        parts = weights.reshape(outputs // block, inputs, height, width, block)
        return parts.transpose(0, 4, 1, 2, 3).reshape(weights.shape)
    parts = weights.reshape(outputs // block, inputs // block, height, width, block, block)
    return parts.transpose(0, 5, 1, 4, 2, 3).reshape(weights.shape)


def block_size() -> int:
    """Return the block of the file that is being imported."""
    return _BLOCK.get(SMALL)


@contextmanager
def blocks_of(model: Any) -> Iterator[None]:
    """Let converters know the block of `model`."""
    is_blocked = any(opset.domain == DOMAIN for opset in model.opset_import)
    token = _BLOCK.set(find_block_size(model) if is_blocked else SMALL)
    try:
        yield
    finally:
        _BLOCK.reset(token)


def find_block_size(model: Any) -> int:
    """Return the block that a file's convolutions show, or this machine's."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type == "Conv" and node.input[1] in tensors:
            groups = next((int(a.i) for a in node.attribute if a.name == "group"), 1)
            block = shown_block(array_of(tensors[node.input[1]], node.input[1]), groups)
            if block is not None:
                return block
    block = block_of_machine()
    logger.info("%s does not show its block of channels: taken as %d", model.graph.name, block)
    return block


def shown_block(weights: Array, groups: int) -> int | None:
    """Return the only block with which these weights can have been written, or None."""
    outputs, inputs = weights.shape[:2]
    fitting = [block for block in (SMALL, LARGE) if _fits(outputs, inputs, groups, block)]
    if len(fitting) == 1:
        return fitting[0]
    # Channels that fill a last block up are zero: fewer than a block, and found in that one only.
    filled = [block for block in fitting if _fills_up(weights, groups, block)]
    return filled[0] if len(filled) == 1 else None


def _fits(outputs: int, inputs: int, groups: int, block: int) -> bool:
    if outputs % block:
        return False
    return is_in_rows(outputs, inputs, groups, block) or inputs % block == 0


def _fills_up(weights: Array, groups: int, block: int) -> bool:
    plain = plain_weights(weights, groups, block)
    sides: list[Any] = [plain.any(axis=(1, 2, 3))]
    outputs, inputs = weights.shape[:2]
    if not is_in_rows(outputs, inputs, groups, block):
        sides.append(plain.any(axis=(0, 2, 3)))
    return any(_ends_in_zeros(side, block) for side in sides)


def _ends_in_zeros(is_used: Array, block: int) -> bool:
    """Tell whether fewer channels than a block are unused, at the end and nowhere else."""
    count = int(np.argmax(is_used[::-1]))
    return 0 < count < block and bool(is_used[: is_used.size - count].all())


@cache
def block_of_machine() -> int:
    """Return the block that ONNX Runtime uses on this machine."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return LARGE
    try:
        features = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return SMALL
    return LARGE if "avx512f" in features else SMALL
