"""The forms in which a node says which keys are padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.attention_mask import Mask, causal
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.values import Tensor, constant

HEADS_RANK = 4


@dataclass(frozen=True)
class Sizes:
    """The extents that a mask is read by."""

    batch: int
    queries: int
    past: int
    keys: int
    """All of them, those of the past included."""


def attention_mask(node: SchemaNode, given: Tensor | None, sizes: Sizes) -> Mask:
    """Return what a node's mask, its ``attention_bias`` and ``unidirectional`` say together.

    A key that is padding gets the node's ``mask_filter_value`` added to its score, so a query that
    sees padding only weighs it as if nothing were masked; keys behind a query get the lowest
    number.
    """
    mask = Mask()
    low = float(node.attribute("mask_filter_value"))
    if given is not None:
        allowed = _allowed(node, given, sizes)
        if allowed is not None:
            bias = relay.where(allowed, scalar(0, "float32"), scalar(low, "float32"))
            mask.add(bias, "float32")
    if "attention_bias" in node.input_roles:
        bias_tensor = node.maybe("attention_bias")
        if bias_tensor is not None:
            _check_bias(node, bias_tensor, sizes)
            mask.add(bias_tensor.expr, bias_tensor.dtype)
    if node.attribute("unidirectional", 0) and sizes.queries > 1:
        mask.keep(causal(sizes.queries, sizes.keys, sizes.past))
    return mask


def _check_bias(node: SchemaNode, bias: Tensor, sizes: Sizes) -> None:
    wanted = (sizes.queries, sizes.keys)
    if bias.rank != 4 or bias.shape[2:] != wanted or bias.shape[0] not in (1, sizes.batch):
        expected = (
            f"an attention_bias of [{sizes.batch} or 1, heads or 1, {wanted[0]}, {wanted[1]}]"
        )
        raise node.refuse(expected, str(list(bias.shape)))


def _is_positive(tensor: Tensor, shape: tuple[int, ...]) -> Any:
    return relay.greater(reshape(tensor.expr, shape), scalar(0, tensor.dtype))


def _allowed(node: SchemaNode, given: Tensor, sizes: Sizes) -> Any:
    """Return which keys are none of padding, broadcast with [batch, head, query, key]."""
    batch, queries, keys = sizes.batch, sizes.queries, sizes.keys
    shape = given.shape
    if shape == (batch, queries, keys):
        return _is_positive(given, (batch, 1, queries, keys))
    if shape == (batch, keys):
        return _is_positive(given, (batch, 1, 1, keys))
    if len(shape) == 2 and shape[0] in (1, batch) and shape[1] == 1:
        # A mask that stands for none, which old exporters write.
        return None
    if shape in ((batch,), (2 * batch,)):
        return _between(given, sizes)
    forms = (
        f"a mask of [{batch}], [{2 * batch}], [{batch}, {keys}] or [{batch}, {queries}, {keys}], "
        "the forms that ONNX Runtime takes on a CPU"
    )
    raise node.refuse(forms, str(list(shape)))


def _between(given: Tensor, sizes: Sizes) -> Any:
    """Return the keys before each end, and from each start on where these follow the ends."""
    batch = sizes.batch
    places = constant(np.arange(sizes.keys, dtype=given.dtype).reshape(1, 1, 1, -1))

    def part(index: int) -> Any:
        if given.shape == (batch,):
            return reshape(given.expr, (batch, 1, 1, 1))
        cut = relay.strided_slice(given.expr, [index * batch], [(index + 1) * batch])
        return reshape(cut, (batch, 1, 1, 1))

    allowed = relay.less(places, part(0))
    if given.shape != (batch,):
        allowed = relay.logical_and(allowed, relay.greater_equal(places, part(1)))
    return allowed
