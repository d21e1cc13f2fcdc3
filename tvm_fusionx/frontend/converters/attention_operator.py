"""ONNX's own Attention, since opset 23."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.attention import (
    Attended,
    Heads,
    append_positions,
    attend,
    join_heads,
    split_heads,
)
from tvm_fusionx.frontend.converters.attention_mask import Mask, causal, window
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.element_types import dtype_of
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, KEY_LENGTHS = range(7)
HEADS_RANK = 4
SHORT_MASKS_SINCE = 24


def _heads(node: Node, position: int, attribute: str) -> Heads:
    shape = node.shape(position)
    if len(shape) == HEADS_RANK:
        return Heads(node.expr(position), shape)
    count = int(node.attribute(attribute, 0))
    if len(shape) != HEADS_RANK - 1 or count < 1 or shape[-1] % count:
        raise node.refuse(
            f"four dimensions, or three and {attribute} that divides the last",
            f"shape {list(shape)} and {attribute}={count}",
        )
    return split_heads(node.expr(position), shape, count)


def _check(node: Node, queries: Heads, keys: Heads, values: Heads) -> None:
    batch, size = queries.shape[0], queries.size
    fits = (
        keys.shape == (batch, keys.count, keys.length, size)
        and values.shape[:3] == (batch, keys.count, keys.length)
        and keys.count > 0
        and queries.count % keys.count == 0
    )
    if not fits:
        raise node.refuse(
            "queries, keys and values of one batch, with sizes that fit",
            ", ".join(str(list(part.shape)) for part in (queries, keys, values)),
        )
    if node.has(PAST_KEY) != node.has(PAST_VALUE):
        raise node.refuse("past_key and past_value together", "one of them")


def _with_past(node: Node, new: Heads, position: int) -> Heads:
    if not node.has(position):
        return new
    shape = node.shape(position)
    if len(shape) != HEADS_RANK or (*shape[:2], shape[3]) != (*new.shape[:2], new.shape[3]):
        raise node.refuse(f"a past like {list(new.shape)}", str(list(shape)))
    return append_positions(node.expr(position), shape, new)


def _offset(node: Node, queries: Heads) -> Any:
    """Return how many keys precede the first query: one number, or one for each batch entry."""
    if node.has(PAST_KEY):
        return node.shape(PAST_KEY)[2]
    if not node.has(KEY_LENGTHS):
        return 0
    return _lengths(node, queries.shape[0], -queries.length)


def _lengths(node: Node, batch: int, more: int = 0) -> Any:
    """Return the numbers of keys that are no padding, and `more`, as [batch, 1, 1, 1]."""
    tensor = node.tensor(KEY_LENGTHS)
    if tensor.shape != (batch,):
        raise node.refuse(f"nonpad_kv_seqlen of shape [{batch}]", str(list(tensor.shape)))
    if tensor.array is not None:
        return tensor.array.astype("int64").reshape(batch, 1, 1, 1) + more
    lengths = reshape(relay.cast(tensor.expr, "int64"), (batch, 1, 1, 1))
    return lengths + relay.const(more, "int64") if more else lengths


def _given_mask(node: Node, mask: Mask, keys: int) -> None:
    tensor = node.tensor(MASK)
    if tensor.rank > HEADS_RANK:
        raise node.refuse("a mask of at most four dimensions", str(list(tensor.shape)))
    value = tensor.array if tensor.array is not None else tensor.expr
    missing = keys - tensor.shape[-1] if tensor.rank else 0
    is_broadcast = tensor.rank and tensor.shape[-1] == 1 and node.version < SHORT_MASKS_SINCE
    if missing > 0 and not is_broadcast:
        # Keys behind the end of a mask may not be seen.
        known = np.zeros((keys,), bool)
        known[: tensor.shape[-1]] = True
        mask.keep(known)
        pads = [(0, 0)] * (tensor.rank - 1) + [(0, missing)]
        value = (
            np.pad(value, pads)
            if isinstance(value, np.ndarray)
            else _pad_behind(value, tensor.shape, missing, tensor.dtype)
        )
    if tensor.dtype == "bool":
        mask.keep(value)
    else:
        mask.add(value, tensor.dtype)


def _pad_behind(x: Any, shape: tuple[int, ...], count: int, dtype: str) -> Any:
    zeros = relay.zeros((*shape[:-1], count), dtype)
    return relay.concatenate([x, zeros], len(shape) - 1)


def _mask(node: Node, queries: Heads, keys: Heads) -> Mask:
    mask = Mask()
    if node.has(MASK):
        _given_mask(node, mask, keys.length)
    offset = _offset(node, queries)
    if node.attribute("is_causal", 0):
        mask.keep(causal(queries.length, keys.length, offset))
    before = int(node.attribute("left_window_size", -1))
    after = int(node.attribute("right_window_size", -1))
    for limit in window(queries.length, keys.length, offset, before, after):
        mask.keep(limit)
    if node.has(KEY_LENGTHS):
        count = _lengths(node, keys.shape[0])
        places = np.arange(keys.length, dtype="int64").reshape(1, 1, 1, -1)
        is_known = isinstance(count, np.ndarray)
        mask.keep(places < count if is_known else relay.less(constant(places), count))
    return mask


@converter("Attention", through=25)
def convert_attention(node: Node) -> Any:
    """softmax(scale * Q x K + mask) x V, of heads that may share keys, behind a cache."""
    dtype = node.dtype()
    queries = _heads(node, QUERY, "q_num_heads")
    keys, values = (_heads(node, i, "kv_num_heads") for i in (KEY, VALUE))
    _check(node, queries, keys, values)
    keys, values = _with_past(node, keys, PAST_KEY), _with_past(node, values, PAST_VALUE)
    precision = node.attribute("softmax_precision")
    softmax_dtype = (
        dtype_of(int(precision), f"softmax_precision of node {node.name!r}") if precision else None
    )
    if softmax_dtype == "bfloat16":
        softmax_dtype = "float32"
    attended = attend(
        queries,
        keys,
        Heads(cast(values.expr, node.dtype(VALUE), dtype), values.shape),
        scale=float(node.attribute("scale", 1 / math.sqrt(queries.size))),
        dtype=dtype,
        mask=_mask(node, queries, keys),
        softcap=float(node.attribute("softcap", 0.0)),
        softmax_dtype=softmax_dtype,
    )
    is_heads = node.rank() == HEADS_RANK
    return [
        attended.result.expr if is_heads else join_heads(attended.result),
        keys.expr if node.wants(1) else None,
        values.expr if node.wants(2) else None,
        _shown_scores(node, attended) if node.wants(3) else None,
    ]


def _shown_scores(node: Node, attended: Attended) -> Any:
    shown = (attended.products, attended.capped, attended.biased, attended.weights)
    mode = int(node.attribute("qk_matmul_output_mode", 0))
    if not 0 <= mode < len(shown):
        raise node.refuse("a qk_matmul_output_mode of 0 to 3", str(mode))
    return shown[mode]
