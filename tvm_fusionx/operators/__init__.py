"""What is known of each Relay operator of TVM 0.19: mapping type, laws, kinds of loops."""

from tvm_fusionx.operators.mapping_types import (
    MANY_TO_MANY,
    MAPPING_TYPES,
    ONE_TO_MANY,
    ONE_TO_ONE,
    OPAQUE,
    REORGANIZE,
    SHUFFLE,
    MappingType,
    mapping_type_of,
)
from tvm_fusionx.operators.properties import (
    ASSOCIATIVE,
    AXIS_NORMALIZATIONS,
    AXIS_REDUCTIONS,
    COMMUTATIVE,
    CONTRACTIONS,
    DISTRIBUTIVE,
    EXTERN_KERNELS,
    MOVEMENTS,
    PACKED_PRODUCTS,
    TRANSCENDENTALS,
    WINDOW_REDUCTIONS,
)

__all__ = [
    "ASSOCIATIVE",
    "AXIS_NORMALIZATIONS",
    "AXIS_REDUCTIONS",
    "COMMUTATIVE",
    "CONTRACTIONS",
    "DISTRIBUTIVE",
    "EXTERN_KERNELS",
    "MANY_TO_MANY",
    "MAPPING_TYPES",
    "MOVEMENTS",
    "ONE_TO_MANY",
    "ONE_TO_ONE",
    "OPAQUE",
    "PACKED_PRODUCTS",
    "REORGANIZE",
    "SHUFFLE",
    "TRANSCENDENTALS",
    "WINDOW_REDUCTIONS",
    "MappingType",
    "mapping_type_of",
]
