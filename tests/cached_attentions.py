"""Attention of one token over a cache, for tests: calls, numbers, and what numpy makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tests.relay_modules import var
from tvm_fusionx.expressions.cached_attention import OPERANDS, cached_attention

Array = np.ndarray[Any, Any]


def attention_call(groups: int = 2, rows: int = 3, size: int = 16, places: int = 64) -> relay.Expr:
    """Return a call, all of its operands variables named as :data:`OPERANDS` names them."""
    return cached_attention(
        [
            var("query", groups, rows, size),
            var("keys", groups, size, places),
            var("values", groups, places, size),
            *(var(name, groups, size) for name in ("key", "value")),
            var("position", 1, dtype="int32"),
        ]
    )


def drawn(call: relay.Expr, position: int, seed: int = 0) -> list[Array]:
    """Return random operands; what lies behind the filled places is no number."""
    generator = np.random.default_rng(seed)
    found = [
        generator.standard_normal([int(extent) for extent in each.type_annotation.shape])
        for each in call.args[: len(OPERANDS) - 1]
    ]
    query, keys, values, *own = (each.astype("float32") for each in found)
    keys[:, :, max(position, 0) :] = np.nan
    values[:, max(position, 0) :] = np.nan
    return [query, keys, values, *own, np.array([position], "int32")]


def expected(operands: list[Array]) -> Array:
    """Return the result, computed in double precision."""
    query, keys, values, key, value = (each.astype("float64") for each in operands[:-1])
    filled = int(np.clip(operands[-1][0], 0, keys.shape[2]))
    own = np.einsum("grd,gd->gr", query, key)[..., None]
    scores = np.concatenate([query @ keys[:, :, :filled], own], axis=-1)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    cached = weights[..., :filled] @ values[:, :filled]
    return (cached + weights[..., filled:] * value[:, None]).astype("float32")
