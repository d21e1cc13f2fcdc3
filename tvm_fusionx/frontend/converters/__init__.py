"""ONNX operators to Relay, one function each, grouped by what they do.

Converters know every input's static type, and the numbers of the constant ones. They are our own
because TVM 0.19's are slow (they infer types and build kernels to read shapes), older than today's
opsets, and in places wrong without a word; ``because`` in the table names the fault.
"""

from tvm_fusionx.frontend.converters import (
    activations,
    attention_operator,
    caches,
    casts,
    constants,
    convolution,
    einsum,
    elementwise,
    gathering,
    linear,
    microsoft,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reductions,
    regions,
    resizing,
    rms_normalization,
    rotary,
    shapes,
    signal,
    slicing,
)
from tvm_fusionx.frontend.converters.registry import CONVERTERS, Converter

__all__ = [
    "CONVERTERS",
    "Converter",
    "activations",
    "attention_operator",
    "caches",
    "casts",
    "constants",
    "convolution",
    "einsum",
    "elementwise",
    "gathering",
    "linear",
    "microsoft",
    "normalization",
    "padding",
    "pooling",
    "quantization",
    "recurrent",
    "reductions",
    "regions",
    "resizing",
    "rms_normalization",
    "rotary",
    "shapes",
    "signal",
    "slicing",
]
