"""Attention: two matrix products in one block, the rows of the first weighing those of the second.

The second product reads each row of scores once for all its columns, so that a few rows of scores
never need to leave the cache: nothing is computed again, and no score is written to memory. A
softmax can even be taken of some scores of a row at a time, so that rows may have any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.ecg.types import COMPUTED_IN_SINGLE
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import is_elementwise
from tvm_fusionx.fusion.geometry import Rows, is_contraction, keeps_rows, row_reduction
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.operators import MOVEMENTS, REORGANIZE

PRODUCT = "nn.batch_matmul"
SOFTMAX = "nn.softmax"


@dataclass(frozen=True)
class AttentionLimits:
    """What a target offers to attention; targets without a kernel for it have none."""

    rows: int
    """Fewest queries that its kernel takes."""


def are_attention(contractions: Sequence[Node]) -> bool:
    """Tell whether the contractions of a block may be scores and values."""
    return [node.op for node in contractions] == [PRODUCT, PRODUCT]


def why_not_attention(candidate: Candidate, limits: AttentionLimits | None) -> Refusal | None:
    """Say why two batched products are not one kernel, or None if they are.

    Parameters
    ----------
    candidate
        Units with two batched products.
    limits
        What the target offers; None where it has no kernel for attention.
    """
    scores, values = (node for node in candidate.many_to_many if is_contraction(node))
    reason: str | None = "the target has no kernel for attention"
    if limits is not None:
        reason = (
            _why_not_products(scores, values)
            or _why_not_chain(candidate, scores, values)
            or _why_not_tiled(candidate, scores, values, limits)
        )
    if reason is None:
        return None
    return Refusal(Reason.SECOND_CONTRACTION, f"{scores.op}, {values.op}: {reason}")


def _why_not_products(scores: Node, values: Node) -> str | None:
    if any(
        value.dtype not in COMPUTED_IN_SINGLE
        for node in (scores, values)
        for value in node.operands
    ):
        return "their sums are not float32"
    if values.operands[0].shape != scores.outputs[0].shape:
        return "the second does not read the rows of the first"
    if any(node.attrs.get("transpose_a", False) for node in (scores, values)):
        return "one reads its rows transposed"
    return None


def _why_not_tiled(
    candidate: Candidate, scores: Node, values: Node, limits: AttentionLimits
) -> str | None:
    rows = scores.outputs[0].shape[1]
    if rows < limits.rows:
        return f"{rows} rows are less than a tile, of {limits.rows}"
    return None if _is_softmax(candidate, scores, values) else "no softmax alone weighs the values"


def _is_softmax(candidate: Candidate, scores: Node, values: Node) -> bool:
    """Tell whether the values are weighed by a softmax of the scores, and by nothing else."""
    below, above = candidate.below([scores]), candidate.above([values])
    between = [node for node in above if node in below]
    softmax = [node for node in between if node.op == SOFTMAX]
    if len(softmax) != 1 or sum(row_reduction(node) is not None for node in between) > 1:
        return False
    after = [node for node in candidate.below(softmax) if node in between]
    moved = {"transpose", *MOVEMENTS} - REORGANIZE
    return all(node.op in REORGANIZE for node in after) and all(
        node.op not in moved for node in between
    )


def _why_not_chain(candidate: Candidate, scores: Node, values: Node) -> str | None:
    """Say why the calls are not scores, reductions of their rows, and the values."""
    batch, count, columns = scores.outputs[0].shape
    rows = Rows(batch * count, columns)
    below = candidate.below([scores])
    between = [node for node in candidate.above([values]) if node in below]
    reductions = [node for node in candidate.many_to_many if not is_contraction(node)]
    if values not in below or values.operands[1].node in (scores, *below):
        return "the second does not read the first as its rows"
    if not reductions or any(node not in between for node in reductions):
        return "no reductions, or others than between them"
    for node in between:
        if row_reduction(node) != rows and not keeps_rows(node, rows):
            return f"{node.op} between them tears the rows"
    after = candidate.below([values])
    for node in after:
        is_moved = node.op in REORGANIZE or node.op == "transpose"
        is_same = node.outputs[0].elements == values.outputs[0].elements
        if not is_same or not (is_moved or is_elementwise(node)):
            return f"{node.op} after them changes their elements"
    if below - set(between) - after - {values}:
        return "the scores are read elsewhere"
    return None if len(candidate.stored) == 1 else "the block has several results"
