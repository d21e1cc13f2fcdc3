"""Blocks around matrix products, norms and softmax, as fusion makes them."""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import relay

from tests.relay_modules import var


def packed_dense(rows: int, columns: int, depth: int, width: int = 16) -> relay.Expr:
    """Return a product with packed weights, plus a bias."""
    data, weights = var("x", rows, depth), var("w", columns // width, depth, width)
    product = relay.nn.contrib_dense_pack(data, weights, weight_layout=f"NC{width}n")
    return relay.add(product, var("bias", columns))


def gelu(x: relay.Expr) -> relay.Expr:
    """Return ``x / 2 * (1 + erf(x / sqrt(2)))``."""
    inner = relay.erf(x * relay.const(1 / math.sqrt(2)))
    return x * relay.const(0.5) * (relay.const(1.0) + inner)


def layer_norm(x: relay.Expr, size: int) -> relay.Expr:
    """Return the norm of the last axis, decomposed as SimplifyInference does."""
    mean = relay.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = relay.mean(centred * centred, axis=-1, keepdims=True)
    scaled = centred * relay.rsqrt(variance + relay.const(1e-5))
    return scaled * var("gamma", size) + var("beta", size)


def attention_scores(heads: int, rows: int, columns: int, depth: int) -> relay.Expr:
    """Return queries times keys, both split into heads, scaled and masked."""
    queries = _heads(var("q", rows, heads * depth), heads, rows, depth)
    keys = _heads(var("k", columns, heads * depth), heads, columns, depth)
    scores = relay.reshape(relay.nn.batch_matmul(queries, keys), (1, heads, rows, columns))
    return scores * relay.const(0.25) + var("mask", 1, 1, 1, columns)


def attention_values(heads: int, rows: int, columns: int, depth: int) -> relay.Expr:
    """Return weights times values, heads put side by side again."""
    weights = relay.reshape(var("p", 1, heads, rows, columns), (heads, rows, columns))
    values = relay.reshape(var("v", columns, heads * depth), (columns, heads, depth))
    product = relay.nn.batch_matmul(weights, relay.transpose(values, (1, 2, 0)))
    apart = relay.transpose(relay.reshape(product, (1, heads, rows, depth)), (0, 2, 1, 3))
    return relay.reshape(apart, (rows, heads * depth))


def _heads(x: relay.Expr, heads: int, rows: int, depth: int) -> relay.Expr:
    return relay.transpose(relay.reshape(x, (rows, heads, depth)), (1, 0, 2))


def attention(
    heads: int,
    rows: int,
    columns: int,
    depth: int,
    width: int,
    weigh: Callable[[relay.Expr], relay.Expr] = relay.nn.softmax,
) -> relay.Expr:
    """Return weights of masked scores times values, heads put side by side again."""
    weights = relay.reshape(
        weigh(attention_scores(heads, rows, columns, depth)), (heads, rows, columns)
    )
    values = relay.reshape(var("v", columns, heads * width), (columns, heads, width))
    product = relay.nn.batch_matmul(weights, relay.transpose(values, (1, 2, 0)))
    apart = relay.transpose(relay.reshape(product, (1, heads, rows, width)), (0, 2, 1, 3))
    return relay.reshape(apart, (rows, heads * width))


def norm_attention(heads: int, rows: int, columns: int, depth: int, width: int) -> relay.Expr:
    """Return an attention whose weights are a norm of the scores, not a softmax."""
    return attention(heads, rows, columns, depth, width, lambda x: layer_norm(x, columns))
