"""A pool behind a convolution by minimal filtering: windows that lie within the tiles.

The convolution computes its result tile by tile. Where no window crosses a tile, the pool reads
the tile from registers, and nothing is computed again or kept.
"""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import is_elementwise
from tvm_fusionx.fusion.reasons import Reason, Refusal

WINOGRAD = "nn.contrib_conv2d_winograd_without_weight_transform"
POOLS = frozenset(["nn.avg_pool2d", "nn.max_pool2d"])

# Axes of a blocked image [N, C / c, H, W, c] over which windows move.
MOVING = slice(2, 4)


def why_not_pooled(candidate: Candidate) -> Refusal | None:
    """Say why several reductions without common rows cannot be one kernel, or None if they can."""
    heavy = candidate.many_to_many
    names = ", ".join(node.op for node in heavy)
    convolution, pool, *others = heavy
    if convolution.op != WINOGRAD or pool.op not in POOLS or others:
        return Refusal(Reason.ROWS_DIFFER, names)
    reason = _why_not_within_tiles(convolution, pool) or _why_not_chain(
        candidate, convolution, pool
    )
    return Refusal(Reason.ROWS_DIFFER, f"{names}: {reason}") if reason else None


def reads_tiles(candidate: Candidate, node: Node) -> bool:
    """Tell whether a call of a legal candidate is a pool that reads tiles from registers."""
    heavy = candidate.many_to_many
    return len(heavy) > 1 and heavy[0].op == WINOGRAD and node is heavy[-1]


def _why_not_within_tiles(convolution: Node, pool: Node) -> str | None:
    window = tuple(map(int, pool.attrs["pool_size"]))
    if tuple(map(int, pool.attrs["strides"])) != window:
        return "windows overlap or leave gaps"
    if any(map(int, pool.attrs["padding"])) or any(
        int(step) != 1 for step in pool.attrs["dilation"]
    ):
        return "windows leave the image, or have holes"
    extents = pool.operands[0].shape[MOVING]
    if len(pool.operands[0].shape) != len(convolution.outputs[0].shape):
        return "the layout changes between them"
    if pool.attrs["ceil_mode"] and any(
        extent % size for extent, size in zip(extents, window, strict=True)
    ):
        return "the last windows leave the image"
    tile = int(convolution.attrs["tile_size"])
    if any(tile % size for size in window):
        return f"windows of {window} cross tiles of {tile}"
    return None


def _why_not_chain(candidate: Candidate, convolution: Node, pool: Node) -> str | None:
    """Say why what reads the convolution is not elementwise up to the pool, and the pool after."""
    shape = convolution.outputs[0].shape
    after, before = candidate.below([convolution]), set(candidate.above([pool]))
    for node in candidate.nodes:
        if node in after & before and not (is_elementwise(node) and node.outputs[0].shape == shape):
            return f"{node.op} between them is not elementwise"
    unpooled = {convolution, *(after & before)}
    beyond = candidate.below([pool])
    for node in beyond:
        if node.outputs[0].elements != pool.outputs[0].elements:
            return f"{node.op} changes the number of elements"
    for node in after - before - {pool}:
        if any(value.node in unpooled for value in node.operands):
            return f"{node.op} reads what is not pooled"
    return None if pool in after else "the second does not read the first"
