"""Normalizations of a sum, with all their outputs; statistics are single at least."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.values import Tensor

# Sums of these are kept in float32.
HALVES = ("float16", "bfloat16")


def wide_of(dtype: str) -> str:
    """Return the dtype that statistics are computed in."""
    return "float32" if dtype in HALVES else dtype


def normalize(
    x: Any, axes: list[int], epsilon: float, dtype: str, is_centred: bool
) -> tuple[Any, Any, Any]:
    """Return the normal form of `x` over `axes`, its mean or None, and 1 / its deviation."""
    mean = relay.mean(x, axes, True) if is_centred else None
    centred = x if mean is None else x - mean
    spread = relay.mean(centred * centred, axes, True)
    deviation = relay.sqrt(spread + scalar(epsilon, dtype))
    return centred / deviation, mean, scalar(1, dtype) / deviation


def _normalized_sum(node: SchemaNode, is_centred: bool) -> list[Any]:
    dtype, rank, shape = node.dtype(), node.rank(), node.shape()
    wide = wide_of(dtype)
    skip = node.named("skip")
    # One batch entry, or one row for all, may stand for every one.
    total = node.expr() + skip.expr
    bias = node.maybe("bias")
    if bias is not None:
        total = total + bias.expr
    x = cast(total, dtype, wide)
    normal, mean, inverse = normalize(
        x, [rank - 1], float(node.attribute("epsilon")), wide, is_centred
    )
    result = normal * cast(node.named("gamma").expr, dtype, wide)
    beta = node.maybe("beta") if is_centred else None
    if beta is not None:
        result = result + cast(beta.expr, dtype, wide)
    if tuple(np.broadcast_shapes(shape, skip.shape)) != shape:
        raise node.refuse(f"a skip that broadcasts to {list(shape)}", str(list(skip.shape)))
    return [cast(result, wide, dtype), mean if node.wants(1) else None, inverse, total]


@microsoft("SkipLayerNormalization")
def convert_skip_layer_normalization(node: SchemaNode) -> list[Any]:
    """Normalize input + skip + bias over the last axis; scale and shift."""
    return _normalized_sum(node, is_centred=True)


@microsoft("SkipSimplifiedLayerNormalization")
def convert_skip_simplified_layer_normalization(node: SchemaNode) -> list[Any]:
    """Divide input + skip + bias by its root mean square over the last axis; scale."""
    return _normalized_sum(node, is_centred=False)


@microsoft("SimplifiedLayerNormalization", domain="")
def convert_simplified_layer_normalization(node: SchemaNode) -> list[Any]:
    """Divide by the root mean square over the axes from `axis` on; scale."""
    node.expects("stash_type", 1)
    dtype, rank = node.dtype(), node.rank()
    axis = node.axis(-1)
    scale = node.named("scale")
    work = wide_of(dtype)
    normal, _, inverse = normalize(
        cast(node.expr(), dtype, work),
        list(range(axis, rank)),
        float(node.attribute("epsilon")),
        work,
        is_centred=False,
    )
    result = normal * cast(_at_the_end(scale, node.shape(), axis), scale.dtype, work)
    return [cast(result, work, scale.dtype), inverse]


def _at_the_end(scale: Tensor, shape: tuple[int, ...], axis: int) -> Any:
    """Return a scale given flat, or in the shape of the normalized axes, as it broadcasts."""
    if scale.rank == 1 and len(shape) - axis > 1 and scale.shape[0] == math.prod(shape[axis:]):
        return reshape(scale.expr, shape[axis:])
    return scale.expr


def embedded(table: Tensor, index: Any) -> Any:
    """Return the rows of a table."""
    return relay.take(table.expr, index, axis=0, mode="clip")


@microsoft("EmbedLayerNormalization")
def convert_embed_layer_normalization(node: SchemaNode) -> list[Any]:
    """Add the embeddings of words, places and segments; normalize over the last axis."""
    ids = node.named("input_ids")
    batch, steps = ids.shape
    table = node.named("position_embedding")
    places = node.maybe("position_ids")
    if places is None:
        index = relay.const(np.arange(steps, dtype="int32").reshape(1, steps))
        total = embedded(node.named("word_embedding"), ids.expr) + embedded(table, index)
    else:
        total = embedded(node.named("word_embedding"), ids.expr) + embedded(table, places.expr)
    segments, segment_table = node.maybe("segment_ids"), node.maybe("segment_embedding")
    if segments is not None and segment_table is not None:
        total = total + embedded(segment_table, segments.expr)
    dtype = table.dtype
    work = wide_of(dtype)
    normal, _, _ = normalize(
        cast(total, dtype, work), [2], float(node.attribute("epsilon")), work, is_centred=True
    )
    result = normal * cast(node.named("gamma").expr, dtype, work)
    result = cast(result + cast(node.named("beta").expr, dtype, work), work, dtype)
    node.attribute("mask_index_type")
    mask = node.maybe("mask")
    if mask is None:
        count = np.zeros(batch, "int32")
    else:
        is_one = relay.equal(mask.expr, scalar(1, mask.dtype))
        count = relay.sum(relay.cast(is_one, "int32"), axis=1)
    return [result, count, total]
