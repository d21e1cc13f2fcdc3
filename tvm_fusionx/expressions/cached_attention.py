"""Attention of one token over a cache of which a part is filled, as one operator.

Operands are ``query [groups, rows, size]``, scaled, the rows of a group being the heads that share
its keys; the cache, ``keys [groups, size, places]`` and ``values [groups, places, size]``; the
token's own ``key`` and ``value`` ``[groups, size]``; and ``position [1]``, int32: how many places
are filled, the first ones. The result is ``[groups, rows, size]``: values of the places filled and
of the token itself, weighted by the softmax of their scores.

What the other places hold does not count, be it no number, so a kernel need not read them. This is
why it is an operator: of products and a softmax with a mask nobody can tell that the mask is a
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relay, te, tir
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator

CACHED_ATTENTION = "fusionx.cached_attention"

# Annotation of the last stage: the names of the operands' buffers.
CACHED = "cached_attention"

# A score that counts for nothing.
LOWEST = -1e30

OPERANDS = {
    "query": "Of each head, scaled.",
    "keys": "Of the cache, feature by feature.",
    "values": "Of the cache, place by place.",
    "key": "Of the token.",
    "value": "Of the token.",
    "position": "Places filled.",
}


def register_cached_attention() -> None:
    """Make the operator known to Relay; idempotent."""
    register_operator(
        CACHED_ATTENTION, OPERANDS, _compute, pattern=OpPattern.OPAQUE, type_relation=_type
    )


def cached_attention(operands: Sequence[Any]) -> Any:
    """Return Relay of the call, of operands in the order of :data:`OPERANDS`."""
    register_cached_attention()
    return relay.Call(relay.op.get(CACHED_ATTENTION), list(operands))


def _type(operands: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    return operands[0]


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    query, keys, values, key, value, position = inputs
    groups, rows, size = query.shape
    places = keys.shape[2]
    heads = (groups, rows)
    zero = tir.const(0, query.dtype)

    def along(extent: Any) -> Any:
        return te.reduce_axis((0, extent), name="k")

    def where_filled(place: Any, number: Any, otherwise: Any) -> Any:
        return tir.if_then_else(place < position[0], number, otherwise)

    k = along(size)
    own = te.compute(heads, lambda g, r: te.sum(query[g, r, k] * key[g, k], axis=k), "own_score")
    j = along(size)
    scores = te.compute(
        (*heads, places), lambda g, r, p: te.sum(query[g, r, j] * keys[g, j, p], axis=j), "score"
    )
    lowest = tir.const(LOWEST, query.dtype)
    kept = te.compute(
        scores.shape, lambda g, r, p: where_filled(p, scores[g, r, p], lowest), "kept_score"
    )
    p = along(places)
    most = te.compute(heads, lambda g, r: te.max(kept[g, r, p], axis=p), "most")
    top = te.compute(heads, lambda g, r: te.max(most[g, r], own[g, r]), "top")
    weights = te.compute(
        scores.shape,
        lambda g, r, p: where_filled(p, te.exp(kept[g, r, p] - top[g, r]), zero),
        "weight",
    )
    q = along(places)
    total = te.compute(heads, lambda g, r: te.sum(weights[g, r, q], axis=q), "total")
    m = along(places)
    mixed = te.compute(
        query.shape,
        lambda g, r, d: te.sum(where_filled(m, weights[g, r, m] * values[g, m, d], zero), axis=m),
        "mixed",
    )
    weight = te.compute(heads, lambda g, r: te.exp(own[g, r] - top[g, r]), "own_weight")
    return [
        te.compute(
            query.shape,
            lambda g, r, d: (
                (mixed[g, r, d] + weight[g, r] * value[g, d]) / (total[g, r] + weight[g, r])
            ),
            "attended",
            attrs={CACHED: [str(each.op.name) for each in inputs]},
        )
    ]
