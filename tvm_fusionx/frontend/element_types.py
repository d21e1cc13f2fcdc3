"""ONNX element types and their names in NumPy and Relay."""

from __future__ import annotations

import onnx

from tvm_fusionx.errors import UnsupportedOperatorError

TensorProto = onnx.TensorProto

DTYPES: dict[int, str] = {
    TensorProto.BOOL: "bool",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.FLOAT16: "float16",
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
}
ELEMENTS = {dtype: element for element, dtype in DTYPES.items()}

# ONNX's name of an integer below eight bits, which is kept one in a byte -> dtype and limits. The
# narrowest came with onnx 1.20.
_NARROW: dict[str, tuple[str, int, int]] = {
    "INT4": ("int8", -8, 7),
    "UINT4": ("uint8", 0, 15),
    "INT2": ("int8", -2, 1),
    "UINT2": ("uint8", 0, 3),
}
_KNOWN = {
    TensorProto.DataType.Value(name): row
    for name, row in _NARROW.items()
    if name in TensorProto.DataType.keys()  # noqa: SIM118
}
STORED_WIDER: dict[int, str] = {element: dtype for element, (dtype, _, _) in _KNOWN.items()}
LIMITS: dict[int, tuple[int, int]] = {e: (low, high) for e, (_, low, high) in _KNOWN.items()}

# Operators that only move elements, whatever their type.
MOVES = frozenset(
    {"Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Transpose", "Unsqueeze"}
)
# Only these take and make such integers, which NumPy and TVM's kernels do not know.
NARROW_OPERATORS = MOVES | {
    "Cast",
    "CastLike",
    "DequantizeLinear",
    "QuantizeLinear",
    "com.microsoft.DequantizeLinear",
    "com.microsoft.GatherBlockQuantized",
    "com.microsoft.QuantizeLinear",
}


def element_type_name(element: int) -> str:
    """Return ONNX's name of an element type, e.g. ``FLOAT``; of one it has not, the number."""
    names = {value: name for name, value in TensorProto.DataType.items()}
    return str(names.get(element, f"number {element}"))


def dtype_of(element: int, thing: str) -> str:
    """Return the name of the dtype that holds an ONNX element type.

    Raises
    ------
    UnsupportedOperatorError
        For strings, float8 and complex numbers.
    """
    dtype = DTYPES.get(element) or STORED_WIDER.get(element)
    if dtype is None:
        raise UnsupportedOperatorError(
            thing,
            expected="a boolean, an integer of 4 to 64 bits or a float of 16 to 64 bits",
            found=f"element type {element_type_name(element)}",
            next_step="Export the model in float32, float16, bfloat16 or int8.",
        )
    return dtype
