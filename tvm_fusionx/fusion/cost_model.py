"""How long a block takes, from shapes alone: bytes, arithmetic, recomputation, one launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.fusion.border import Border
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.device_costs import DeviceCosts
from tvm_fusionx.fusion.geometry import is_contraction, is_movement, row_reduction
from tvm_fusionx.operators import (
    AXIS_NORMALIZATIONS,
    REORGANIZE,
    TRANSCENDENTALS,
    MappingType,
)

FLOPS_PER_PRODUCT = 2


@dataclass(frozen=True)
class BlockCost:
    """Microseconds that one block takes, by cause.

    Parameters
    ----------
    launch_us
        Starting the kernel.
    memory_us
        Reading its operands and writing its results, each once.
    compute_us
        Arithmetic and index arithmetic, what is computed again included.
    recomputed_us
        The part of `compute_us` that a kernel of its own would not need.
    """

    launch_us: float
    memory_us: float
    compute_us: float
    recomputed_us: float

    @property
    def microseconds(self) -> float:
        """All of it: memory is read while the processor computes."""
        return self.launch_us + max(self.memory_us, self.compute_us)


FREE = BlockCost(0.0, 0.0, 0.0, 0.0)


def block_cost(nodes: Sequence[Node], border: Border, costs: DeviceCosts) -> BlockCost:
    """Return what a kernel of `nodes` costs.

    Parameters
    ----------
    nodes
        Its calls, operands before users.
    border
        What it reads and gives.
    costs
        Rates of the device.
    """
    if all(node.op in REORGANIZE for node in nodes):
        return FREE
    times = evaluations(nodes)
    compute = recomputed = 0.0
    for node in nodes:
        work = _microseconds(node, costs)
        compute += work * times[node]
        recomputed += work * (times[node] - 1.0)
    return BlockCost(costs.launch_us, _memory_us(nodes, border, costs), compute, recomputed)


def _memory_us(nodes: Sequence[Node], border: Border, costs: DeviceCosts) -> float:
    """Return the time of all traffic, tensor by tensor: fusing never makes what is left dearer."""
    sizes = {value: value.type.bytes for value in border.outputs}
    for node in nodes:
        for value in node.operands:
            if value in border.reads:
                sizes[value] = max(sizes.get(value, 0), _bytes_read(value, node))
    total = 0.0
    for size in sizes.values():
        fits = size <= costs.cache_bytes
        total += size / (costs.cache_bytes_per_us if fits else costs.memory_bytes_per_us)
    return total


def _bytes_read(value: Value, reader: Node) -> int:
    """Return the bytes of `value` that a call touches: a gather reads a few rows of its table."""
    if not is_movement(reader):
        return value.type.bytes
    share = reader.outputs[0].elements / max(1, value.type.elements)
    return math.ceil(value.type.bytes * min(1.0, share))


def evaluations(nodes: Sequence[Node]) -> dict[Node, float]:
    """Return how many times over each result is computed, at least once.

    A call inside the block is evaluated wherever its consumer is: as often as that, and for every
    element of it. Results of Many-to-Many calls, and those that have one element a row of a
    reduction, are kept in a buffer of the kernel instead. Two readers in one iteration share.
    """
    members = set(nodes)
    rows = {row_reduction(node) for node in nodes if _is_heavy(node)} - {None}
    row_counts = {row.count for row in rows if row is not None}
    times = dict.fromkeys(nodes, 1.0)
    for consumer in reversed(nodes):
        for value in consumer.operands:
            producer = value.node
            if producer not in members or _is_heavy(producer):
                continue
            if value.type.elements in row_counts:
                continue
            times[producer] = max(times[producer], _reads(consumer, producer, times[consumer]))
    return times


def _reads(consumer: Node, producer: Node, times: float) -> float:
    """Return how often each element of `producer` is read by `times` evaluations of `consumer`."""
    if _is_heavy(consumer):
        return 1.0
    if len(consumer.operands) > 1 and is_movement(consumer):
        # A union: each of its elements reads one operand only.
        return times
    ratio = consumer.outputs[0].elements / max(1, producer.outputs[0].elements)
    return max(1.0, ratio) * times


def _is_heavy(node: Node) -> bool:
    return mapping_type(node) is MappingType.MANY_TO_MANY


def _microseconds(node: Node, costs: DeviceCosts) -> float:
    """Return the time of computing every result element of a call once."""
    if node.op in REORGANIZE:
        return 0.0
    elements = sum(output.elements for output in node.outputs)
    if is_contraction(node):
        return flops(node) / FLOPS_PER_PRODUCT / costs.products_per_us
    if is_movement(node):
        in_order = mapping_type(node) is not MappingType.SHUFFLE
        return elements / (costs.elements_per_us if in_order else costs.moved_per_us)
    cheap = max(elements, flops(node)) / costs.elements_per_us
    # A softmax takes an exponential of every element.
    has_function = node.op in TRANSCENDENTALS or node.op in AXIS_NORMALIZATIONS
    return cheap + (elements / costs.transcendentals_per_us if has_function else 0.0)
