"""Constant matrices in integers, with a scale for each block of a row: kept as they are.

Written as Relay's own dequantization, they stay integers until the target is known
(``passes.RewriteQuantized``): a product may read them packed, and all others read floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.values import constant

Array = np.ndarray[Any, Any]

BYTES = ("int8", "uint8")


def why_not_blocks(levels: Array, zeros: Array, size: int) -> str | None:
    """Return why a matrix is not kept in blocks along its rows, or None.

    Parameters
    ----------
    levels
        ``[N, K]``.
    zeros
        ``[N, blocks]``.
    size
        Of a block.
    """
    if str(levels.dtype) not in BYTES:
        return f"its levels are {levels.dtype}"
    if not np.array_equal(zeros, np.rint(zeros)):
        return "its zero points are no whole numbers"
    if levels.shape[1] % size:
        return "its last block is cut"
    return None


def in_blocks(levels: Array, scales: Array, zeros: Array) -> Any:
    """Return float32 ``[N, K]`` of ``(levels - zeros) * scales``, dequantized block by block."""
    rows, length = levels.shape
    blocks = constant(levels.reshape(scales.size, -1))
    # A vector of one is one number.
    shape = (-1,) if scales.size > 1 else ()
    scale = constant(scales.astype("float32").reshape(shape))
    zero = constant(zeros.astype("int32").reshape(shape))
    numbers = relay.qnn.op.dequantize(blocks, scale, zero, axis=0)
    return relay.reshape(numbers, (rows, length))
