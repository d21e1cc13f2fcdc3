"""Winograd's minimal filtering for the blocked 3x3 convolutions that it makes faster.

Three questions, each with a reason for no: *can* it be computed so, *which* way is the cheapest by
the cost that the schedules count (which tile, and who transforms the weights), and *should* it be,
does it gain enough over the direct sum.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.ecg.types import COMPUTED_IN_SINGLE
from tvm_fusionx.expressions.minimal_filtering import (
    FILTERINGS,
    WINDOW,
    panel_weights,
    transform_weights,
)
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.processors.brains import BRAIN, SINGLE
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows.output_vectors import joined_chunks
from tvm_fusionx.schedules.winograd.tiling import (
    Problem,
    best_cut,
    cut_cycles,
    direct_cycles,
    panel_channels,
)

logger = logging.getLogger(__name__)

WINOGRAD = "nn.contrib_conv2d_winograd_without_weight_transform"

# Narrower chunks leave most lanes of the transforms' vectors empty.
FEWEST_LANES = 4

# It must win clearly: it rounds worse than the direct sum, and its weights take more memory.
LEAST_GAIN = 1.1


def pack_winograd(graph: Graph, cpu: Cpu, *, brains: bool = False) -> int:
    """Compute the blocked 3x3 convolutions of `graph` by minimal filtering where it pays, in place.

    Parameters
    ----------
    graph
        The graph, after :func:`tvm_fusionx.layout.pack_convolutions`.
    cpu
        What the costs are counted for.
    brains
        Whether all floats will lie in memory as bfloat16.

    Returns
    -------
    int
        Number of convolutions changed.
    """
    changed = 0
    for node in list(graph.calls()):
        if node.op != DENSE_BLOCKED:
            continue
        reason = why_not_filtered(node) or why_multiplied(node, cpu, brains=brains)
        reason = reason or why_not_faster(node, cpu)
        if reason is not None:
            logger.debug("%s stays a direct sum: %s", node.name or node.op, reason)
            continue
        graph.replace(node[0], _filtered(graph, node, best_problem(node, cpu)))
        changed += 1
    graph.prune()
    return changed


def why_not_filtered(node: Node) -> str | None:
    """Return why a blocked convolution cannot be computed by minimal filtering, or None."""
    attrs = node.attrs
    kernel = node.operands[1].shape[2:4]
    if kernel != (WINDOW, WINDOW):
        return f"its window is {kernel}, not {(WINDOW, WINDOW)}"
    if any(int(each) != 1 for each in (*attrs["strides"], *attrs["dilation"])):
        return f"its strides are {attrs['strides']} and its dilation {attrs['dilation']}"
    if int(attrs["groups"]) != 1:
        return f"it has {attrs['groups']} groups"
    if not node.operands[1].is_constant:
        return "its weights are not constant"
    dtypes = {node.operands[0].dtype, node.operands[1].dtype, node.outputs[0].dtype}
    if not dtypes <= set(COMPUTED_IN_SINGLE):
        return f"its tensors are {', '.join(sorted(dtypes))}: only float32 has digits to spare"
    return None


def why_multiplied(node: Node, cpu: Cpu, *, brains: bool = False) -> str | None:
    """Return why an instruction for matrices of bfloat16 is better for a convolution, or None.

    It multiplies sixteen numbers for four of a float32 instruction; minimal filtering saves less
    than that, transforms in float32, and rounds worse.
    """
    data = node.operands[0]
    is_brain = data.dtype == BRAIN or (brains and data.dtype == SINGLE)
    if cpu.brain_dot is None or not is_brain or data.shape[-1] % cpu.brain_dot.depth:
        return None
    return "the processor multiplies matrices of its bfloat16"


def why_not_faster(node: Node, cpu: Cpu) -> str | None:
    """Return why minimal filtering of a convolution that allows it is not worth it, or None."""
    if 0 in node.outputs[0].shape:
        return "it computes nothing"
    lanes = min(node.operands[0].shape[-1], node.outputs[0].shape[-1])
    if lanes < FEWEST_LANES:
        return f"its chunks have {lanes} channels, fewer than {FEWEST_LANES}"
    gain = estimated_gain(best_problem(node, cpu), cpu)
    if gain < LEAST_GAIN:
        return f"it would gain {gain:.2f} times, less than {LEAST_GAIN}"
    return None


def best_problem(node: Node, cpu: Cpu) -> Problem:
    """Return the way of filtering that is estimated to be the fastest."""
    return best_problem_of(
        node.operands[0].shape, node.outputs[0].shape, node.attrs["padding"], cpu
    )


def best_problem_of(
    in_shape: tuple[int, ...], out_shape: tuple[int, ...], padding: Sequence[int], cpu: Cpu
) -> Problem:
    """Return the fastest way, by estimate, of filtering a window of such shapes in NCHWc."""
    problems = [
        _problem(in_shape, out_shape, padding, tile, transforms_weights, cpu)
        for tile in FILTERINGS
        for transforms_weights in (False, True)
    ]
    return max(problems, key=lambda problem: estimated_gain(problem, cpu))


def estimated_gain(problem: Problem, cpu: Cpu) -> float:
    """Return how many times faster than the direct sum a convolution should be."""
    return direct_cycles(problem, cpu) / cut_cycles(problem, best_cut(problem, cpu), cpu)


def filtered_cycles(node: Node, cpu: Cpu) -> float | None:
    """Return the estimated cycles of minimal filtering where it would be chosen, or None."""
    if (why_not_filtered(node) or why_not_faster(node, cpu)) is not None:
        return None
    problem = best_problem(node, cpu)
    return cut_cycles(problem, best_cut(problem, cpu), cpu)


def filtered_cycles_of(
    in_shape: tuple[int, ...],
    out_shape: tuple[int, ...],
    window: Sequence[int],
    padding: Sequence[int],
    cpu: Cpu,
) -> float | None:
    """Return :func:`filtered_cycles` of a window of steps of 1, in one group, of such shapes.

    Parameters
    ----------
    in_shape, out_shape
        In NCHWc.
    window
        Rows and columns.
    padding
        Above, left, below, right.
    """
    if tuple(window) != (WINDOW, WINDOW) or min(in_shape[-1], out_shape[-1]) < FEWEST_LANES:
        return None
    problem = best_problem_of(in_shape, out_shape, padding, cpu)
    if estimated_gain(problem, cpu) < LEAST_GAIN:
        return None
    return cut_cycles(problem, best_cut(problem, cpu), cpu)


def _problem(
    in_shape: tuple[int, ...],
    out_shape: tuple[int, ...],
    padding: Sequence[int],
    tile: int,
    transforms_weights: bool,
    cpu: Cpu,
) -> Problem:
    _, chunks, _, _, block = out_shape
    top, left, _, _ = (int(each) for each in padding)
    panel = panel_channels(chunks * block, block, cpu)
    return Problem(
        filtering=FILTERINGS[tile],
        in_shape=in_shape,
        out_shape=out_shape,
        padding=(top, left),
        panel=panel,
        transforms_weights=transforms_weights,
        joined=joined_chunks(panel // block, block, cpu),
    )


def _filtered(graph: Graph, node: Node, problem: Problem) -> Value:
    data, weights = node.operands
    attrs = node.attrs
    # Those of a half precision model too: transformed, their digits lie apart.
    array = unpack_weights(weights.array).astype("float32", copy=False)
    packed = (
        panel_weights(array, problem.panel)
        if problem.transforms_weights
        else transform_weights(array, problem.filtering, problem.panel)
    )
    new_attrs = default_attributes(
        WINOGRAD,
        tile_size=problem.filtering.tile,
        strides=(1, 1),
        padding=attrs["padding"],
        dilation=(1, 1),
        groups=1,
        channels=problem.out_channels,
        kernel_size=(WINDOW, WINDOW),
        data_layout=attrs["data_layout"],
        kernel_layout="OIHW",
        out_layout=attrs["out_layout"],
        out_dtype=attrs["out_dtype"],
    )
    return graph.call(WINOGRAD, [data, graph.constant(packed)], new_attrs, name=node.name)


def unpack_weights(array: np.ndarray) -> np.ndarray:
    """Return weights ``[O / o, I / i, h, w, i, o]`` as ``[O, I, h, w]``."""
    out_chunks, in_chunks, rows, columns, inner, outer = array.shape
    return array.transpose(0, 5, 1, 4, 2, 3).reshape(
        out_chunks * outer, in_chunks * inner, rows, columns
    )


__all__ = [
    "WINOGRAD",
    "filtered_cycles",
    "filtered_cycles_of",
    "pack_winograd",
    "unpack_weights",
    "why_not_faster",
    "why_not_filtered",
]
