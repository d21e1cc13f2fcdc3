"""Rotary position embeddings as ONNX Runtime has had them before ONNX did."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.attention import Heads, join_heads, split_heads
from tvm_fusionx.frontend.converters.microsoft.registry import SchemaNode, microsoft
from tvm_fusionx.frontend.converters.rotary import rotate, rows_at
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.values import Tensor, constant

HEADS_RANK = 4


def counted_from(first: Any, batch: int, length: int) -> Any:
    """Return positions first, first + 1, ... for each batch entry, as int64 of [batch, length].

    Parameters
    ----------
    first
        An expression of int64, of [1, 1] or [batch, 1].
    """
    steps = constant(np.arange(length, dtype="int64").reshape(1, length))
    places = first + steps
    return relay.broadcast_to(places, (batch, length))


def turn(
    node: SchemaNode, x: Heads, positions: Any, cosines: Tensor, sines: Tensor, interleaved: bool
) -> Heads:
    """Return heads turned by the caches' angles at `positions`; as many elements as these have."""
    half = cosines.shape[-1]
    if cosines.shape != sines.shape or cosines.rank != 2 or 2 * half > x.size:
        raise node.refuse(
            f"caches of two axes, the last of at most {x.size // 2}",
            f"{list(cosines.shape)} and {list(sines.shape)}",
        )
    shape = (x.shape[0], x.length, half)
    cosine, sine = (rows_at(cache.expr, positions, shape) for cache in (cosines, sines))
    return rotate(x, cosine, sine, 2 * half, interleaved)


@microsoft("RotaryEmbedding")
def convert_rotary_embedding(node: SchemaNode) -> Any:
    """Turn pairs of elements of each head by the angle of their position."""
    node.expects("is_packed_batching", 0)
    node.expects("scale", 1.0)
    data, cosines = node.named("input"), node.named("cos_cache")
    turned, heads = (int(node.attribute(n)) for n in ("rotary_embedding_dim", "num_heads"))
    if data.rank == HEADS_RANK:
        x = Heads(data.expr, data.shape)
    else:
        if turned and not heads:
            raise node.refuse("num_heads beside rotary_embedding_dim", "none")
        heads = heads if turned else data.shape[-1] // (2 * cosines.shape[-1])
        if data.rank != HEADS_RANK - 1 or not heads or data.shape[-1] % heads:
            found = f"shape {list(data.shape)} for {heads} heads"
            raise node.refuse("an input of three axes, or of four", found)
        x = split_heads(data.expr, data.shape, heads)
    if turned and turned != 2 * cosines.shape[-1]:
        raise node.refuse(f"a cache of {turned // 2} columns", str(list(cosines.shape)))
    batch, ids = x.shape[0], node.named("position_ids")
    if ids.shape == (1,) or ids.rank == 0:
        positions = counted_from(reshape(ids.expr, (1, 1)), batch, x.length)
    elif ids.shape == (batch, x.length):
        positions = ids.expr
    else:
        expected = f"position_ids of [1] or [{batch}, {x.length}]"
        raise node.refuse(expected, str(list(ids.shape)))
    interleaved = bool(node.expects("interleaved", 0, 1))
    result = turn(node, x, positions, cosines, node.named("sin_cache"), interleaved)
    return result.expr if data.rank == HEADS_RANK else join_heads(result)
