"""Attention with its projection, quantized or not, and attention of many heads."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.attention import (
    Heads,
    append_positions,
    attend,
    join_heads,
    split_heads,
)
from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.microsoft.padding_masks import Sizes, attention_mask
from tvm_fusionx.frontend.converters.microsoft.quantized_products import dequantized_columns
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.quantization import dequantized
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.values import Tensor, constant

# Of three parts of a projection: queries, keys, values.
PARTS = 3
HEADS_RANK = 4
PACKED_RANK = 5


def scale_of(node: SchemaNode, size: int) -> float:
    """Return what products are multiplied by; zero means the default."""
    return float(node.attribute("scale", 0.0)) or 1 / math.sqrt(size)


def cut_columns(x: Any, rank: int, starts: list[int]) -> list[Any]:
    """Return the parts of the last axis between each start and the next."""
    return [
        slice_axis(x, rank - 1, range(first, last), starts[-1])
        for first, last in itertools.pairwise(starts)
    ]


def _hidden_sizes(node: SchemaNode, columns: int) -> list[int]:
    sizes = [int(size) for size in node.attribute("qkv_hidden_sizes", [])]
    sizes = sizes or [columns // PARTS] * PARTS
    heads = int(node.attribute("num_heads"))
    fits = len(sizes) == PARTS and sum(sizes) == columns and sizes[0] == sizes[1]
    if not fits or any(size % heads for size in sizes):
        raise node.refuse(
            f"hidden sizes that {heads} heads divide, of queries and keys alike, "
            f"{columns} together",
            str(sizes),
        )
    return sizes


def _past(node: SchemaNode) -> tuple[Any, Any, tuple[int, ...]] | None:
    """Return the keys and values of a past (2, batch, heads, positions, size), and their shape."""
    past = node.maybe("past")
    if past is None:
        return None
    if past.rank != PACKED_RANK or past.shape[0] != 2:
        raise node.refuse("a past of [2, batch, heads, positions, size]", str(list(past.shape)))
    shape = past.shape[1:]
    if past.array is not None:
        return constant(past.array[0]), constant(past.array[1]), shape
    halves = [relay.strided_slice(past.expr, [i], [i + 1], axes=[0]) for i in range(2)]
    return reshape(halves[0], shape), reshape(halves[1], shape), shape


def _attend_projected(
    node: SchemaNode, projected: Any, shape: tuple[int, ...], dtype: str
) -> list[Any]:
    """Return attention of queries, keys and values side by side in (batch, steps, columns)."""
    batch, steps, columns = shape
    heads = int(node.attribute("num_heads"))
    sizes = _hidden_sizes(node, columns)
    starts = [0, sizes[0], sizes[0] + sizes[1], columns]
    queries, keys, values = (
        split_heads(part, (batch, steps, size), heads)
        for part, size in zip(cut_columns(projected, PARTS, starts), sizes, strict=True)
    )
    past = _past(node)
    before = 0
    if past is not None:
        past_keys, past_values, past_shape = past
        if (*past_shape[:2], past_shape[3]) != (batch, heads, keys.size):
            found = str([2, *past_shape])
            raise node.refuse(f"a past of [2, {batch}, {heads}, ..., {keys.size}]", found)
        before = past_shape[2]
        keys = append_positions(past_keys, past_shape, keys)
        values = append_positions(past_values, past_shape, values)
    extents = Sizes(batch, steps, before, keys.length)
    attended = attend(
        queries,
        keys,
        values,
        scale=scale_of(node, queries.size),
        dtype=dtype,
        mask=attention_mask(node, node.maybe("mask_index"), extents),
        is_guarded=False,
    )
    present = relay.stack([keys.expr, values.expr], 0) if node.wants(1) else None
    return [join_heads(attended.result), present]


@microsoft("Attention")
def convert_attention(node: SchemaNode) -> list[Any]:
    """Project, and attend: softmax(scale * Q x K + mask) x V."""
    x, weights = node.named("input"), node.named("weights")
    turned = None if weights.array is None else constant(weights.array.T)
    projected = matmul(x.expr, x.shape, weights.expr, weights.shape, b_turned=turned)
    bias = node.maybe("bias")
    if bias is not None:
        projected = projected + bias.expr
    return _attend_projected(node, projected, (*x.shape[:2], weights.shape[1]), x.dtype)


@microsoft("QAttention")
def convert_qattention(node: SchemaNode) -> list[Any]:
    """Project quantized numbers, and attend."""
    source, weights = node.named("input"), node.named("weight")
    x = dequantized(node, source, node.named("input_scale"), node.maybe("input_zero_point"), 2)
    zero = node.maybe("weight_zero_point")
    right = dequantized_columns(node, weights, node.named("weight_scale"), zero)
    projected = matmul(x.expr, x.shape, right.expr, right.shape) + node.named("bias").expr
    return _attend_projected(node, projected, (*x.shape[:2], weights.shape[1]), x.dtype)


def _unpacked(tensor: Tensor, count: int) -> list[Heads]:
    """Return the parts of (batch, positions, heads, parts, size) as heads."""
    batch, length, heads, _, size = tensor.shape
    turned = transpose(tensor.expr, (3, 0, 2, 1, 4))
    shape = (batch, heads, length, size)
    return [
        Heads(reshape(slice_axis(turned, 0, range(i, i + 1), count), shape), shape)
        for i in range(count)
    ]


def _heads_of(node: SchemaNode, name: str, heads: int) -> Heads:
    """Return an input of (batch, positions, hidden), or of heads already, as heads."""
    tensor = node.named(name)
    if tensor.rank == HEADS_RANK:
        return Heads(tensor.expr, tensor.shape)
    if tensor.rank != HEADS_RANK - 1 or tensor.shape[-1] % heads:
        found = str(list(tensor.shape))
        raise node.refuse(f"{name} of three axes, the last for {heads} heads, or of four", found)
    return split_heads(tensor.expr, tensor.shape, heads)


def _queries_keys_values(node: SchemaNode) -> list[Heads]:
    """Return the three operands, however they are packed."""
    heads = int(node.attribute("num_heads"))
    query, key = node.named("query"), node.maybe("key")
    if query.rank == PACKED_RANK:
        return _unpacked(query, PARTS)
    if key is None:
        raise node.refuse("a key, or queries, keys and values packed in five axes", "none")
    queries = _heads_of(node, "query", heads)
    if key.rank == PACKED_RANK:
        return [queries, *_unpacked(key, 2)]
    return [queries, _heads_of(node, "key", heads), _heads_of(node, "value", heads)]


def _with_bias(node: SchemaNode, parts: list[Heads]) -> list[Heads]:
    """Return operands plus their parts of the bias of the projection."""
    bias = node.maybe("bias")
    if bias is None:
        return parts
    sizes = [part.count * part.size for part in parts]
    if bias.shape != (sum(sizes),):
        raise node.refuse(f"a bias of [{sum(sizes)}]", str(list(bias.shape)))
    starts = [0, *(int(end) for end in np.cumsum(sizes))]
    return [
        Heads(part.expr + reshape(cut, (1, part.count, 1, part.size)), part.shape)
        for part, cut in zip(parts, cut_columns(bias.expr, 1, starts), strict=True)
    ]


@microsoft("MultiHeadAttention")
def convert_multi_head_attention(node: SchemaNode) -> list[Any]:
    """softmax(scale * Q x K + mask) x V, behind a cache where there is one."""
    queries, keys, values = _with_bias(node, _queries_keys_values(node))
    before = 0
    past_key, past_value = node.maybe("past_key"), node.maybe("past_value")
    if (past_key is None) != (past_value is None):
        raise node.refuse("past_key and past_value together", "one of them")
    if past_key is not None and past_value is not None:
        before = past_key.shape[2]
        keys = append_positions(past_key.expr, past_key.shape, keys)
        values = append_positions(past_value.expr, past_value.shape, values)
    extents = Sizes(queries.shape[0], queries.length, before, keys.length)
    dtype = node.dtype()
    mask = attention_mask(node, node.maybe("key_padding_mask"), extents)
    attended = attend(
        queries,
        keys,
        values,
        scale=scale_of(node, queries.size),
        dtype=dtype,
        mask=mask,
        is_guarded=False,
    )
    scores = None
    if node.wants(3):
        bias = mask.bias(dtype)
        scores = attended.products if bias is None else attended.products + bias
    present = [part.expr if node.wants(i) else None for i, part in ((1, keys), (2, values))]
    return [join_heads(attended.result), *present, scores]
