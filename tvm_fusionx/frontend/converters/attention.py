"""Scaled dot-product attention, for every operator that is one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.attention_mask import Mask
from tvm_fusionx.frontend.converters.casts import cast
from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.linear import swap_last_two
from tvm_fusionx.frontend.converters.shapes import reshape, transpose

# [batch, head, position, size] and [batch, position, head, size] turn into one another.
SWAP_HEADS = (0, 2, 1, 3)

SINGLE = "float32"
HALVES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Heads:
    """An operand of attention: an expression of [batch, heads, positions, size]."""

    expr: Any
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Return how many heads there are."""
        return self.shape[1]

    @property
    def length(self) -> int:
        """Return how many positions there are."""
        return self.shape[2]

    @property
    def size(self) -> int:
        """Return how many elements a head has."""
        return self.shape[3]


def split_heads(x: Any, shape: tuple[int, ...], heads: int) -> Heads:
    """Return [batch, positions, heads * size] as heads."""
    batch, length, hidden = shape
    size = hidden // heads
    parts = reshape(x, (batch, length, heads, size))
    return Heads(transpose(parts, SWAP_HEADS), (batch, heads, length, size))


def join_heads(heads: Heads) -> Any:
    """Return heads as [batch, positions, heads * size]."""
    batch, count, length, size = heads.shape
    return reshape(transpose(heads.expr, SWAP_HEADS), (batch, length, count * size))


def append_positions(past: Any, past_shape: tuple[int, ...], new: Heads) -> Heads:
    """Return the positions of a cache with the new ones behind them."""
    batch, count, length, size = new.shape
    shape = (batch, count, past_shape[2] + length, size)
    return new if not past_shape[2] else Heads(relay.concatenate([past, new.expr], 2), shape)


@dataclass(frozen=True)
class Attended:
    """What attention computes on its way; expressions that nobody reads cost nothing."""

    result: Heads
    products: Any
    """queries x keys, scaled: [batch, heads, queries, keys]."""
    capped: Any
    """The products within the soft cap."""
    biased: Any
    """The capped products and the mask, with -inf at keys that a query may not see."""
    weights: Any
    """The softmax, zero for a query that sees no key."""

    def in_type(self, dtype: str) -> Attended:
        """Return all of it, which is float32, in another type."""
        found = (self.result.expr, self.products, self.capped, self.biased, self.weights)
        result, *others = (cast(each, SINGLE, dtype) for each in found)
        return Attended(Heads(result, self.result.shape), *others)


def attend(
    queries: Heads,
    keys: Heads,
    values: Heads,
    *,
    scale: float,
    dtype: str,
    mask: Mask | None = None,
    softcap: float = 0.0,
    softmax_dtype: str | None = None,
    is_guarded: bool = True,
) -> Attended:
    """Return softmax(cap(scale * queries x keys) + mask) x values.

    Groups of query heads share a head of keys and values where there are fewer of these: the
    queries of a group are rows of one product, so that no key is copied.

    Parameters
    ----------
    queries, keys, values
        All of `dtype`. Query head ``h`` reads head ``h // (queries.count // keys.count)``. Halves
        are attended to in float32, and what is returned is rounded: a scale rounded to a half would
        move each score by as much, and scaled queries may be smaller than the least half.
    softmax_dtype
        In what type the softmax is taken; by default `dtype`. Of halves it is float32.
    is_guarded
        Whether a query that sees no key has a result of zeros, as ONNX has it; else of the average.
    """
    mask = Mask() if mask is None else mask
    if dtype in HALVES:
        wide = (
            Heads(cast(each.expr, dtype, SINGLE), each.shape) for each in (queries, keys, values)
        )
        choices: dict[str, Any] = {"softcap": softcap, "is_guarded": is_guarded}
        return attend(*wide, scale=scale, dtype=SINGLE, mask=mask, **choices).in_type(dtype)
    batch, count, length, size = queries.shape
    groups, shared = batch * keys.count, count // keys.count
    softmax_dtype = softmax_dtype or dtype
    shape = (batch, count, length, keys.length)
    scaled = queries.expr if scale == 1.0 else queries.expr * scalar(scale, dtype)
    products = reshape(
        relay.nn.batch_matmul(
            reshape(scaled, (groups, shared * length, size)),
            reshape(keys.expr, (groups, keys.length, size)),
            out_dtype=dtype,
        ),
        shape,
    )
    capped = products
    if softcap:
        capped = relay.tanh(products / scalar(softcap, dtype)) * scalar(softcap, dtype)
    weights = cast(capped, dtype, softmax_dtype)
    bias = mask.bias(softmax_dtype)
    weights = relay.nn.softmax(weights if bias is None else weights + bias, -1)
    weights = cast(weights, softmax_dtype, dtype)
    turned = reshape(swap_last_two(values.expr, 4), (groups, values.size, values.length))
    flat = reshape(weights, (groups, shared * length, keys.length))
    product = relay.nn.batch_matmul(flat, turned, out_dtype=dtype)
    result = reshape(product, (batch, count, length, values.size))
    seen = mask.rows_with_a_key() if is_guarded else None
    if seen is not None:
        result = relay.where(seen, result, scalar(0, dtype))
        weights = relay.where(seen, weights, scalar(0, dtype))
    shown = mask.bias(dtype, -math.inf)
    biased = capped if shown is None else capped + shown
    return Attended(
        Heads(result, (batch, count, length, values.size)), products, capped, biased, weights
    )
