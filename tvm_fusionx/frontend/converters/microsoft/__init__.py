"""Operators that ONNX Runtime defines, as exporters and its optimizer write them.

Each is written by the functions of ONNX's own operators. What a node says comes from its schema
(`contrib_schemas.json`), defaults included, and nothing of it is ignored.
"""

from tvm_fusionx.frontend.converters.microsoft import (
    activations,
    attention,
    blocked_layouts,
    fused_convolution,
    fused_products,
    grouped_attention,
    key_value_cache,
    normalization,
    packed_weights,
    quantization,
    quantized_elementwise,
    quantized_products,
    quantized_recurrent,
    quantized_windows,
    renamed,
    rotary,
)

__all__ = [
    "activations",
    "attention",
    "blocked_layouts",
    "fused_convolution",
    "fused_products",
    "grouped_attention",
    "key_value_cache",
    "normalization",
    "packed_weights",
    "quantization",
    "quantized_elementwise",
    "quantized_products",
    "quantized_recurrent",
    "quantized_windows",
    "renamed",
    "rotary",
]
