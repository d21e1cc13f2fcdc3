"""Every reason for which an edge of the graph is not fused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Why a producer and its consumer are not one block; the value explains it to a person."""

    OPAQUE_OPERATOR = "an operator's access pattern is unknown, or it has a side effect"
    MAPPING_TYPES = "the mapping-type table says that this pair never pays (red cell)"
    SECOND_CONTRACTION = "the block would hold two contractions (matrix product, convolution)"
    PAIR_DOES_NOT_PAY = "row by row, two convolutions would take longer than one after the other"
    ROWS_DIFFER = "the reductions do not run over the same rows, so no one loop nest serves both"
    ROW_IS_TORN = "a data movement after a row-wise reduction tears the row apart"
    DOMAIN_CHANGES = "the consumer's result has another number of elements than the contraction's"
    RECOMPUTED = "the producer's values would be computed again for every element that reads them"
    SLOWER = "one kernel would take longer than two (yellow cell, decided by cost)"
    NO_TEMPLATE = "no template but the one for everything, which is slow, serves them as one kernel"
    TOO_MANY_OUTPUTS = "the intermediate result is read elsewhere and the block has its outputs"
    NOT_CONVEX = "a path leaves the block and comes back to it"
    TOO_MANY_OPERATORS = "the block would hold more operators than the limit"
    BODY_TOO_LARGE = "written into each other, the operators' expressions would be too large"
    TOO_MANY_ARGUMENTS = "the kernel would take more arguments than the limit"
    RESHAPE_IS_FREE = "a reshape at the border of a block needs no kernel at all"
    DENIED = "the user asked to keep them apart"


@dataclass(frozen=True)
class Refusal:
    """A reason with what it was found on.

    Parameters
    ----------
    reason
        The code.
    detail
        The numbers or names that made the decision; empty when the code says all.
    """

    reason: Reason
    detail: str = ""
