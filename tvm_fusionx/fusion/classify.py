"""Mapping type of a call: the operator's, refined by the shapes it is called with."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.operators import EXTERN_KERNELS, MappingType, mapping_type_of


def mapping_type(node: Node) -> MappingType:
    """Return the mapping type of one call (DNNFusion, section 3.1).

    An elementwise operator that broadcasts an operand is One-to-Many. Constant operands do not
    count: the paper lists batch normalisation as One-to-One although its scale is broadcast.
    """
    if node.op in EXTERN_KERNELS:
        return MappingType.OPAQUE
    type_ = mapping_type_of(node.op)
    if type_ is MappingType.ONE_TO_ONE and node.op not in _PIECEWISE and broadcasts(node):
        return MappingType.ONE_TO_MANY
    return type_


# One-to-One in the paper's table, but their result is a part of, or more than, one operand.
_PIECEWISE = frozenset(
    [
        "concatenate",
        "dyn.nn.pad",
        "dyn.strided_slice",
        "matrix_set_diag",
        "nn.dilate",
        "nn.pad",
        "slice_like",
        "split",
        "stack",
        "strided_set",
        "strided_slice",
    ]
)


def is_elementwise(node: Node) -> bool:
    """Tell whether each result element is computed from one element of each operand."""
    return mapping_type_of(node.op) is MappingType.ONE_TO_ONE and node.op not in _PIECEWISE


def broadcasts(node: Node) -> bool:
    """Tell whether an operand that is not constant has fewer elements than the result."""
    elements = node.outputs[0].elements
    return any(not value.is_constant and value.type.elements < elements for value in node.operands)
