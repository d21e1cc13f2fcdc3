"""What the words of a report mean: one sentence for each mapping type and each reason."""

from __future__ import annotations

from tvm_fusionx.fusion import Reason
from tvm_fusionx.operators import MappingType

MAPPING_TYPES: dict[MappingType, str] = {
    MappingType.ONE_TO_ONE: "An element of the result comes from one element of each input, at the "
    "same place, as in add or relu.",
    MappingType.REORGANIZE: "Elements keep their order and only the shape changes, as in reshape.",
    MappingType.SHUFFLE: "Elements change places by a fixed permutation, as in transpose.",
    MappingType.ONE_TO_MANY: "An element of the input is read for many of the result, as in a "
    "broadcast, a gather or a resize.",
    MappingType.MANY_TO_MANY: "An element of the result comes from many of the input, as in a "
    "matrix product, a convolution or a sum.",
    MappingType.OPAQUE: "What is read where is unknown or depends on the data: it is never fused.",
}


def reason_code(reason: Reason) -> str:
    """Return a reason's code in reports, such as ``"second-contraction"``."""
    return reason.name.lower().replace("_", "-")


# A reshape costs nothing: that it is apart keeps no model from being fast.
FREE_RESHAPE = reason_code(Reason.RESHAPE_IS_FREE)


def mapping_type_sentences() -> dict[str, str]:
    """Return a sentence for each mapping type, by its name."""
    return {kind.value: sentence for kind, sentence in MAPPING_TYPES.items()}


def reason_sentences() -> dict[str, str]:
    """Return a sentence for each reason that an edge can be refused for, by its code."""
    return {reason_code(reason): _sentence(reason.value) for reason in Reason}


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."
