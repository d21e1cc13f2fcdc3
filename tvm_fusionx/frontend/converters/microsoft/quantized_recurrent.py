"""Recurrent layers whose products are of bytes, and all else of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.microsoft.quantized_numbers import quantize_by_range
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.recurrent import lstm
from tvm_fusionx.frontend.values import Tensor, constant

ATTRIBUTES = (
    *("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size"),
    "input_forget",
)
FLOATS = ("B", "sequence_lens", "initial_h", "initial_c", "P")
WEIGHTS_RANK = 3


def through_bytes(x: Any) -> Any:
    """Return what is left of `x` after it was quantized by its range."""
    levels, point, scale = quantize_by_range(x)
    return relay.cast(levels - point, "float32") * scale


def _weights(node: SchemaNode, name: str) -> Tensor:
    """Return weights (directions, inputs, gates) dequantized, as an LSTM of floats has them."""
    purpose = "weights are dequantized then"
    positions = (node.position(part) for part in (name, f"{name}_scale", f"{name}_zero_point"))
    levels, scale, zero = (node.array(position, purpose) for position in positions)
    if levels.ndim != WEIGHTS_RANK:
        raise node.refuse(f"{name} of (directions, inputs, gates)", str(list(levels.shape)))
    # One for each direction, or for each gate's column of each.
    scale, zero = (array.reshape(len(levels), 1, -1) for array in (scale, zero))
    if scale.shape[2] not in (1, levels.shape[2]) or zero.shape[2] not in (1, levels.shape[2]):
        found = f"{list(scale.shape)} and {list(zero.shape)}"
        raise node.refuse(f"one scale of {name} for each direction or column", found)
    numbers = (levels.astype("float32") - zero.astype("float32")) * scale
    return Tensor.from_array(np.ascontiguousarray(numbers.transpose(0, 2, 1)))


def _steps_that_run(node: SchemaNode) -> Tensor:
    """Return the data, zero behind the longest sequence: no range is taken of what is not read."""
    x, lengths = node.named("X"), node.maybe("sequence_lens")
    if lengths is None:
        return x
    longest = relay.max(lengths.expr)
    places = constant(np.arange(x.shape[0], dtype=lengths.dtype).reshape(-1, 1, 1))
    running = relay.where(relay.less(places, longest), x.expr, relay.const(0, x.dtype))
    return Tensor(running, x.shape, x.dtype)


@microsoft("DynamicQuantizeLSTM")
def convert_dynamic_quantize_lstm(node: SchemaNode) -> list[Any]:
    """Return a long short-term memory's outputs, its data and state quantized before products."""
    inputs = [_steps_that_run(node), _weights(node, "W"), _weights(node, "R")]
    layer = node.as_standard(
        "LSTM",
        [*inputs, *(node.maybe(name) for name in FLOATS)],
        node.attributes_named(*ATTRIBUTES),
    )
    return lstm(layer, through_bytes)
