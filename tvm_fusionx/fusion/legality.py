"""Can two units be one kernel? One short function per fact, each giving a refusal or None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion.attention import AttentionLimits, are_attention, why_not_attention
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import is_elementwise, mapping_type
from tvm_fusionx.fusion.gathering import is_channel_pool, moves_by_one
from tvm_fusionx.fusion.geometry import (
    MATRIX_PRODUCTS,
    Rows,
    is_contraction,
    keeps_rows,
    row_reduction,
)
from tvm_fusionx.fusion.pairs import PairLimits, why_not_pair
from tvm_fusionx.fusion.partition import Partition
from tvm_fusionx.fusion.pools import why_not_pooled
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.operators import REORGANIZE, MappingType


@dataclass(frozen=True)
class Limits:
    """Upper bounds on one kernel."""

    operators: int = 64
    """Calls in one block; bounds compile time and register pressure."""

    body: int = 512
    """Operators in the expression of one result, each counted wherever it is written again."""

    arguments: int = 64
    """Tensors a kernel takes, results included; Adreno's OpenCL allows 128."""

    outputs: int = 2
    """Results of one block that are read outside of it."""

    contractions: int = 1
    """Matrix products and convolutions in one block."""

    rows_after_contraction: bool = True
    """Whether a kernel that computes tiles of a product may reduce its rows as well."""

    small_chains: bool = True
    """Whether the loop nests of small operators may follow each other in one kernel."""

    results_before_pools: bool = True
    """Whether a pool's kernel may store what it computes of a channel before it pools it."""

    pairs: PairLimits | None = None
    """What the target offers to a depthwise and a pointwise convolution in one block."""

    attention: AttentionLimits | None = None
    """What the target offers to scores, their softmax and the values in one block."""


def why_not_fusible(partition: Partition, candidate: Candidate, limits: Limits) -> Refusal | None:
    """Say why producer and consumer cannot be one kernel, or None if they can."""
    for check in (_why_not_known, _why_not_small, _why_not_one_nest, _why_not_whole):
        refusal = check(partition, candidate, limits)
        if refusal is not None:
            return refusal
    if not partition.is_convex(candidate.producer, candidate.consumer):
        return Refusal(Reason.NOT_CONVEX)
    return None


def _why_not_known(_: Partition, candidate: Candidate, __: Limits) -> Refusal | None:
    for node in candidate.nodes:
        if mapping_type(node) is MappingType.OPAQUE:
            return Refusal(Reason.OPAQUE_OPERATOR, node.op)
    return None


def _why_not_small(_: Partition, candidate: Candidate, limits: Limits) -> Refusal | None:
    if len(candidate.nodes) > limits.operators:
        detail = f"{len(candidate.nodes)} operators, at most {limits.operators}"
        return Refusal(Reason.TOO_MANY_OPERATORS, detail)
    size = body_size(candidate.nodes)
    if size > limits.body:
        return Refusal(Reason.BODY_TOO_LARGE, f"{size} operators, at most {limits.body}")
    arguments = candidate.border.arguments
    if arguments > limits.arguments:
        detail = f"{arguments} arguments, at most {limits.arguments}"
        return Refusal(Reason.TOO_MANY_ARGUMENTS, detail)
    return None


# Movements whose index arithmetic has cases; each case writes out what it reads from again.
_CASES = {
    "image.resize2d": 4,
    "nn.mirror_pad": 3,
    "nn.pad": 2,
    "reverse_sequence": 3,
    "strided_set": 2,
}


def body_size(nodes: Sequence[Node]) -> int:
    """Return the operators in the largest expression of a block once its calls are inlined.

    A value read twice is written twice, so a chain of such reads doubles with every link. Results
    of Many-to-Many calls are kept in a buffer: for their readers they are one load.
    """
    written: dict[Node, int] = {}
    largest = 0
    for node in nodes:
        size = 1 + _CASES.get(node.op, 1) * sum(
            written.get(value.node, 0) for value in node.operands
        )
        largest = max(largest, size)
        is_buffer = mapping_type(node) is MappingType.MANY_TO_MANY
        written[node] = 1 if is_buffer else size
    return largest


def _why_not_whole(_: Partition, candidate: Candidate, limits: Limits) -> Refusal | None:
    """Say why a candidate's results cannot all be stored by one kernel.

    A result beside the last one costs nothing when the kernel passes it on the way: it is computed
    in the same rows, and would have to be stored by a kernel of its own anyway.
    """
    # A block of reshapes alone stores nothing; its one result is its operand.
    outputs = candidate.stored or candidate.border.outputs
    if len(outputs) == 1:
        return None
    names = f"{len(outputs)} outputs ({', '.join(value.op for value in outputs)})"
    if len(outputs) > limits.outputs:
        return Refusal(Reason.TOO_MANY_OUTPUTS, names)
    if len({value.type.elements for value in outputs}) > 1:
        return Refusal(Reason.TOO_MANY_OUTPUTS, f"{names} of different extents")
    windows = [
        node.op
        for node in candidate.many_to_many
        if not _works_by_rows(node) and not (limits.results_before_pools and _pools_all_of(node))
    ]
    if windows:
        return Refusal(Reason.TOO_MANY_OUTPUTS, f"{names} of {windows[0]}")
    if not candidate.stored:
        return Refusal(Reason.TOO_MANY_OUTPUTS, f"{names}, reshapes of one tensor")
    on_the_way = candidate.above([outputs[-1].node])
    if not all(value.node in on_the_way for value in outputs[:-1]):
        return Refusal(Reason.TOO_MANY_OUTPUTS, f"{names}, none on the way to the last")
    for node in candidate.below([value.node for value in outputs[:-1]]):
        if not _reads_everything(node):
            return Refusal(Reason.TOO_MANY_OUTPUTS, f"{names}, of which {node.op} reads a part")
    return None


def _reads_everything(node: Node) -> bool:
    """Tell whether a call reads every element of its operands: a gather may leave some out.

    A kernel computes a result on the way where the last one reads it, and nowhere else.
    """
    return (
        is_elementwise(node)
        or node.op in REORGANIZE
        or node.op in _PERMUTATIONS
        or _works_by_rows(node)
        or _pools_all_of(node)
    )


def _pools_all_of(node: Node) -> bool:
    """Tell whether a call pools channel by channel, and reads every element of each."""
    return is_channel_pool(node) and moves_by_one(node)


# Movements that put every element of their operand in one place.
_PERMUTATIONS = frozenset(["layout_transform", "reverse", "transpose"])


def _works_by_rows(node: Node) -> bool:
    return node.op in MATRIX_PRODUCTS or row_reduction(node) is not None


def _why_not_one_nest(_: Partition, candidate: Candidate, limits: Limits) -> Refusal | None:
    """Say why the Many-to-Many operators of a candidate do not share one loop nest.

    Small ones need not: their loop nests follow each other, each result in a buffer of the kernel.
    """
    heavy = candidate.many_to_many
    if not heavy or (limits.small_chains and candidate.is_small_chain):
        return None
    contractions = [node for node in heavy if is_contraction(node)]
    if len(contractions) > limits.contractions and are_attention(contractions):
        return why_not_attention(candidate, limits.attention)
    if len(contractions) > limits.contractions:
        return why_not_pair(candidate.nodes, limits.pairs)
    rows = [row_reduction(node) for node in heavy if not is_contraction(node)]
    if rows and contractions and not limits.rows_after_contraction:
        return Refusal(Reason.ROWS_DIFFER, "a work-group computes a tile, not whole rows")
    if rows and rows[0] is not None:
        return _why_not_rows(candidate, contractions, rows)
    if len(heavy) > 1:
        return why_not_pooled(candidate)
    return _why_not_same_domain(candidate, heavy[0])


def _why_not_rows(
    candidate: Candidate, contractions: list[Node], all_rows: list[Rows | None]
) -> Refusal | None:
    rows = all_rows[0]
    assert rows is not None
    for other in all_rows[1:]:
        if other != rows:
            return Refusal(Reason.ROWS_DIFFER, f"{rows} and {other}")
    for node in contractions:
        useful = candidate.useful_result(node)
        if node.op not in MATRIX_PRODUCTS or not keeps_rows_of_product(useful, rows):
            return Refusal(Reason.ROWS_DIFFER, f"{rows} and the rows of {node.op}")
        if candidate.is_below_reduction(node):
            return Refusal(Reason.SECOND_CONTRACTION, f"{node.op} reads a reduction")
    wanted = {candidate.useful_result(node) for node in contractions}
    for node in candidate.below_heavy():
        if row_reduction(node) is None and node not in wanted and not keeps_rows(node, rows):
            return Refusal(Reason.ROW_IS_TORN, f"{node.op} to {node.outputs[0]}")
    return None


def keeps_rows_of_product(node: Node, rows: Rows) -> bool:
    """Tell whether a matrix product's rows are the rows of a reduction after it."""
    shape = node.outputs[0].shape
    return shape[-1] == rows.length and node.outputs[0].elements == rows.count * rows.length


def _why_not_same_domain(candidate: Candidate, heavy: Node) -> Refusal | None:
    *padded, useful = candidate.computed_whole(heavy)
    elements = useful.outputs[0].elements
    for node in candidate.below_heavy():
        if node not in padded and node.outputs[0].elements != elements:
            detail = f"{heavy.op} has {elements} elements, {node.op} {node.outputs[0].elements}"
            return Refusal(Reason.DOMAIN_CHANGES, detail)
    return None
