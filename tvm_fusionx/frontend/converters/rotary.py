"""Rotary position embeddings: pairs of elements turned by an angle that grows with the position."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.attention import Heads, join_heads, split_heads
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node

HEADS_RANK = 4


def rotate(x: Heads, cosines: Any, sines: Any, turned: int, is_interleaved: bool) -> Heads:
    """Return heads whose first `turned` elements are turned, in pairs.

    Parameters
    ----------
    cosines, sines
        Expressions that broadcast with [batch, heads, positions, turned / 2].
    turned
        How many elements of a head are turned; the rest passes.
    is_interleaved
        Whether a pair is (0, 1), (2, 3), ...; else it is an element of the first half and the one
        at the same place of the second.
    """
    batch, count, length, size = x.shape
    half, last = turned // 2, len(x.shape) - 1
    pair = (
        (range(0, turned, 2), range(1, turned, 2))
        if is_interleaved
        else (range(half), range(half, turned))
    )
    a, b = (slice_axis(x.expr, last, places, size) for places in pair)
    real, imaginary = a * cosines - b * sines, a * sines + b * cosines
    if is_interleaved:
        both = relay.stack([real, imaginary], last + 1)
        parts = [reshape(both, (batch, count, length, turned))]
    else:
        parts = [real, imaginary]
    if turned < size:
        parts.append(slice_axis(x.expr, last, range(turned, size), size))
    return Heads(parts[0] if len(parts) == 1 else relay.concatenate(parts, last), x.shape)


def rows_at(cache: Any, positions: Any, shape: tuple[int, ...]) -> Any:
    """Return rows of a cache at `positions`, as [batch, 1, positions, elements].

    Parameters
    ----------
    cache
        Expression of [most positions, elements].
    positions
        Expression of integers, of [batch, positions].
    shape
        Batch, positions and elements.
    """
    batch, length, width = shape
    # A position outside of the cache is the caller's fault; what is read stays within it.
    rows = relay.take(cache, positions, axis=0, mode="clip")
    return reshape(rows, (batch, 1, length, width))


def _turns(node: Node, position: int, batch: int, length: int, half: int) -> Any:
    """Return the cosines or sines of a ``RotaryEmbedding`` for each position."""
    shape = node.shape(position)
    if shape[-1] != half:
        raise node.refuse(
            f"a cache of {half} columns, half of the elements that are turned", str(list(shape))
        )
    if not node.has(3):
        if shape != (batch, length, half):
            raise node.refuse(f"a cache of shape {[batch, length, half]}", str(list(shape)))
        return reshape(node.expr(position), (batch, 1, length, half))
    if len(shape) != 2:
        raise node.refuse("a cache of two dimensions beside position_ids", str(list(shape)))
    known = node.tensor(3).array
    if known is not None and known.size and not 0 <= known.min() <= known.max() < shape[0]:
        raise node.refuse(f"positions below {shape[0]}, the rows of the cache", str(known.max()))
    ids = node.expr(3)
    if node.shape(3) != (batch, length):
        ids = relay.broadcast_to(ids, (batch, length))
    return rows_at(node.expr(position), ids, (batch, length, half))


@converter("RotaryEmbedding", through=23)
def convert_rotary_embedding(node: Node) -> Any:
    """Turn pairs of elements of each head by the angle of their position."""
    shape = node.shape()
    if len(shape) == HEADS_RANK:
        x = Heads(node.expr(), shape)
    else:
        heads = int(node.attribute("num_heads", 0))
        if len(shape) != HEADS_RANK - 1 or heads < 1 or shape[-1] % heads:
            raise node.refuse(
                "four dimensions, or three and num_heads that divides the last",
                f"shape {list(shape)} and num_heads={heads}",
            )
        x = split_heads(node.expr(), shape, heads)
    turned = int(node.attribute("rotary_embedding_dim", 0)) or x.size
    if turned % 2 or not 0 < turned <= x.size:
        raise node.refuse(f"an even number of turned elements up to {x.size}", str(turned))
    cosines, sines = (_turns(node, i, x.shape[0], x.length, turned // 2) for i in (1, 2))
    result = rotate(x, cosines, sines, turned, bool(node.attribute("interleaved", 0)))
    return result.expr if len(shape) == HEADS_RANK else join_heads(result)
