"""Attention whose query heads share heads of keys and values, behind a cache of any filling."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.attention import Heads, attend, join_heads, split_heads
from tvm_fusionx.frontend.converters.attention_mask import Mask, at_least, at_most, positions
from tvm_fusionx.frontend.converters.microsoft.attention import cut_columns, scale_of
from tvm_fusionx.frontend.converters.microsoft.key_value_cache import (
    Cache,
    appended,
    cache_of,
    padded,
)
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.microsoft.rotary import counted_from, turn
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.values import constant

# Beyond any position: a limit that holds always.
FAR = 1 << 40


def _operands(node: SchemaNode) -> list[Heads]:
    """Return queries, keys and values, which may lie side by side in one input."""
    query, key = node.named("query"), node.maybe("key")
    heads, shared = int(node.attribute("num_heads")), int(node.attribute("kv_num_heads"))
    if heads % shared:
        raise node.refuse(f"num_heads that kv_num_heads={shared} divides", str(heads))
    counts = (heads, shared, shared)
    if query.rank != 3:
        raise node.refuse("a query of [batch, positions, hidden]", str(list(query.shape)))
    batch, steps, hidden = query.shape
    if key is None:
        size, rest = divmod(hidden, sum(counts))
        if rest:
            raise node.refuse(f"a packed query for {sum(counts)} heads", str(list(query.shape)))
        ends = [0, *(int(end) * size for end in np.cumsum(counts))]
        cuts = cut_columns(query.expr, 3, ends)
        return [
            split_heads(cut, (batch, steps, count * size), count)
            for cut, count in zip(cuts, counts, strict=True)
        ]
    value = node.named("value")
    size = hidden // heads
    for part in (key, value):
        if part.shape != (batch, steps, shared * size) or hidden % heads:
            expected = f"keys and values of {[batch, steps, shared * size]}"
            raise node.refuse(expected, str(list(part.shape)))
    parts = zip((query, key, value), counts, strict=True)
    return [split_heads(part.expr, part.shape, count) for part, count in parts]


def _turned(node: SchemaNode, cache: Cache, parts: list[Heads]) -> list[Heads]:
    """Return queries and keys turned by the angles of their positions, where the node says so."""
    queries, keys, values = parts
    interleaved = bool(node.expects("rotary_interleaved", 0, 1))
    cosines, sines = node.maybe("cos_cache"), node.maybe("sin_cache")
    ids = node.maybe("position_ids")
    if not node.expects("do_rotary", 0, 1):
        return parts
    if cosines is None or sines is None:
        raise node.refuse("cos_cache and sin_cache beside do_rotary=1", "not both")
    batch, steps = queries.shape[0], queries.length
    if ids is not None and not cache.is_empty:
        places = ids.expr
    elif ids is not None:
        # Of a first call the first position counts alone.
        first = relay.strided_slice(reshape(ids.expr, (-1,)), [0], [1])
        places = counted_from(reshape(first, (1, 1)), batch, steps)
    else:
        before = cache.before
        first = constant(before) if isinstance(before, np.ndarray) else before
        places = counted_from(reshape(first, (batch, 1)), batch, steps)
    turned = [turn(node, x, places, cosines, sines, interleaved) for x in (queries, keys)]
    return [*turned, values]


def _mask(node: SchemaNode, cache: Cache, steps: int, has_sink: bool) -> Mask:
    """Return which keys of a cache each query sees, and the sink behind them, which all see."""
    mask = Mask()
    rows, columns = positions(steps, cache.length + has_sink)
    is_sink = columns >= cache.length
    window = int(node.attribute("local_window_size"))
    if node.expects("causal", 0, 1):
        mask.keep(at_least(cache.before, np.where(is_sink, -FAR, columns - rows)))
        if window > 0:
            limit = np.where(is_sink, FAR, columns - rows + window - 1)
            mask.keep(at_most(cache.before, limit))
    else:
        if window > 0:
            raise node.refuse("local_window_size=-1 beside causal=0", str(window))
        mask.keep(at_least(cache.before, np.where(is_sink, -FAR, columns - steps + 1)))
    bias = node.maybe("attention_bias")
    if bias is not None:
        width = bias.shape[-1]
        if bias.rank != 4 or width > cache.length:
            expected = f"an attention_bias of four axes, the last up to {cache.length}"
            raise node.refuse(expected, str(list(bias.shape)))
        missing = cache.length + has_sink - width
        wide = bias.expr
        if missing:
            wide = relay.nn.pad(wide, ((0, 0), (0, 0), (0, 0), (0, missing)), 0.0)
        mask.add(wide, bias.dtype)
    return mask


def _sink(node: SchemaNode, mask: Mask, keys: int, heads: int, dtype: str) -> None:
    """Add to the last key's score what stands in the softmax's denominator for no key."""
    sink = node.maybe("head_sink")
    if sink is None:
        return
    column = reshape(sink.expr, (1, heads, 1, 1))
    is_last = constant((np.arange(keys + 1) == keys).reshape(1, 1, 1, -1).astype(dtype))
    mask.add(column * is_last, dtype)


@microsoft("GroupQueryAttention")
def convert_group_query_attention(node: SchemaNode) -> list[Any]:
    """softmax(cap(scale * Q x K) + mask) x V, where groups of queries share keys and values."""
    node.expects("sliding_window_cache", 0)
    node.attribute("qk_norm_epsilon")
    past_key, past_value = node.maybe("past_key"), node.maybe("past_value")
    parts = _operands(node)
    batch, steps = parts[0].shape[0], parts[0].length
    cache = cache_of(node, batch, steps, 0 if past_key is None else past_key.shape[2])
    queries, new_keys, new_values = _turned(node, cache, parts)
    keys, present_key = appended(node, cache, past_key, new_keys, "k")
    values, present_value = appended(node, cache, past_value, new_values, "v")
    is_smooth = node.attribute("smooth_softmax") == 1
    has_sink = is_smooth or node.gives("head_sink")
    mask = _mask(node, cache, steps, has_sink)
    dtype = node.dtype()
    _sink(node, mask, cache.length, queries.count, dtype)
    attended = attend(
        queries,
        _with_room(keys, has_sink),
        _with_room(values, has_sink),
        scale=scale_of(node, queries.size),
        dtype=dtype,
        mask=mask,
        softcap=float(node.attribute("softcap")),
        is_guarded=False,
    )
    shown = None
    if node.expects("qk_output", 0, 1, 2):
        shown = attended.biased if node.attribute("qk_output") == 1 else attended.weights
        if has_sink:
            shown = relay.strided_slice(shown, [0], [cache.length], axes=[3])
    return [join_heads(attended.result), present_key, present_value, shown]


def _with_room(heads: Heads, has_sink: bool) -> Heads:
    """Return keys or values with one of zeros behind them: its score is that of no key."""
    if not has_sink:
        return heads
    batch, count, length, size = heads.shape
    return Heads(padded(heads.expr, length, length + 1), (batch, count, length + 1, size))
