"""A depthwise convolution and the pointwise one after it: the one pair of contractions in a block.

The pointwise convolution reads every channel of a pixel, and each of them once. So a few rows of
the depthwise result, for all channels, can stay in a core's cache until the pointwise one has used
them up, and nothing is computed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.types import COMPUTED_IN_SINGLE
from tvm_fusionx.fusion.classify import is_elementwise, mapping_type
from tvm_fusionx.fusion.geometry import is_contraction
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.operators import MappingType

DEPTHWISE = "nn.contrib_depthwise_conv2d_NCHWc"
POINTWISE = "nn.contrib_conv2d_NCHWc"

# Share of the work by which the busiest core may exceed the average: what two kernels save beside
# one, a launch and a pass over the depthwise result, is seldom more.
MAX_IMBALANCE = 0.08


@dataclass(frozen=True)
class PairLimits:
    """What a target offers to a pair; targets without a template for pairs have none."""

    cores: int
    """Cores that share the rows of the result."""

    buffer_bytes: int
    """Bytes of the depthwise result that a core's cache keeps until they are read."""


def why_not_pair(nodes: Sequence[Node], limits: PairLimits | None) -> Refusal | None:
    """Say why two contractions cannot be one kernel, or None if they can.

    Parameters
    ----------
    nodes
        Calls of the block, operands before users; several of them contractions.
    limits
        What the target offers; None where it has no kernel for pairs.
    """
    heavy = _heavy(nodes)
    detail = ", ".join(node.op for node in heavy if is_contraction(node))
    if [node.op for node in heavy] != [DEPTHWISE, POINTWISE]:
        return Refusal(Reason.SECOND_CONTRACTION, detail)
    reason = "the target has no kernel for pairs" if limits is None else _why_not_chain(nodes)
    return Refusal(Reason.SECOND_CONTRACTION, f"{detail}: {reason}") if reason else None


def why_not_worth_pairing(nodes: Sequence[Node], limits: PairLimits) -> Refusal | None:
    """Say why a legal pair is better computed one after the other, or None if it is not."""
    depthwise, pointwise = _heavy(nodes)
    batch, _, rows, _, _ = pointwise.outputs[0].shape
    row_bytes = depthwise.bytes_out // (batch * rows)
    if row_bytes > limits.buffer_bytes:
        detail = f"a row of all channels has {row_bytes} bytes, at most {limits.buffer_bytes} stay"
        return Refusal(Reason.PAIR_DOES_NOT_PAY, detail)
    slabs = batch * rows
    imbalance = math.ceil(slabs / limits.cores) * limits.cores / slabs - 1
    if imbalance > MAX_IMBALANCE:
        detail = f"{slabs} rows on {limits.cores} cores leave {imbalance:.0%} of the time idle"
        return Refusal(Reason.PAIR_DOES_NOT_PAY, detail)
    return None


def _heavy(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if mapping_type(node) is MappingType.MANY_TO_MANY]


def _why_not_chain(nodes: Sequence[Node]) -> str | None:
    """Say why the calls are not a chain of two halves, the second reading the first's end only."""
    depthwise, pointwise = _heavy(nodes)
    members = set(nodes)
    first = _reaching(nodes, pointwise)
    if not is_pointwise(pointwise):
        return "the second reads more than one pixel"
    if any(
        value.dtype not in COMPUTED_IN_SINGLE
        for node in nodes
        for value in (*node.operands, node[0])
    ):
        return "their sums are not all float32"
    if depthwise not in first or any(value.node in members for value in pointwise.operands[1:]):
        return "the second does not read the first as its data"
    for node in nodes:
        read = {value.node for value in node.operands} & members
        if node in (depthwise, pointwise):
            continue
        if node in first and not _is_pixel_by_pixel(node, depthwise):
            return f"{node.op} between them is not elementwise"
        if node not in first and node.outputs[0].elements != pointwise.outputs[0].elements:
            return f"{node.op} changes the number of elements"
        if not read:
            return f"{node.op} is computed before"
        if node not in first and read & first:
            return f"{node.op} reads the first's result as well"
    if any(value.node in members for value in depthwise.operands):
        return "the first reads what is computed before"
    return None


def _is_pixel_by_pixel(node: Node, depthwise: Node) -> bool:
    return is_elementwise(node) and node.outputs[0].shape == depthwise.outputs[0].shape


def is_pointwise(node: Node) -> bool:
    """Tell whether a blocked convolution reads one pixel of all channels for each pixel."""
    attrs = node.attrs
    return (
        node.operands[1].shape[2:4] == (1, 1)
        and all(int(step) == 1 for step in attrs["strides"])
        and not any(int(width) for width in attrs["padding"])
        and int(attrs["groups"]) == 1
    )


def _reaching(nodes: Sequence[Node], sink: Node) -> set[Node]:
    """Return the calls of a block whose results `sink` needs."""
    members, found = set(nodes), set()
    stack = [sink]
    while stack:
        for value in stack.pop().operands:
            if value.node in members and value.node not in found:
                found.add(value.node)
                stack.append(value.node)
    return found
