from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.frontend.onnx_nodes import floats
from tests.relay_modules import module, run_plain
from tvm_fusionx.frontend.converters.attention import (
    Heads,
    append_positions,
    attend,
    join_heads,
    split_heads,
)
from tvm_fusionx.frontend.converters.attention_mask import Mask, causal


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _numpy(q: Any, k: Any, v: Any, scale: float, cap: float = 0.0, bias: Any = 0.0) -> list[Any]:
    """Return products, capped products, biased ones, weights and result, in double."""
    shared = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x.astype("float64"), shared, 1) for x in (k, v))
    products = scale * q.astype("float64") @ k.transpose(0, 1, 3, 2)
    capped = np.tanh(products / cap) * cap if cap else products
    weights = _softmax(capped + bias)
    return [products, capped, capped + bias, weights, weights @ v]


def _inputs(query_heads: int, heads: int, dtype: str = "float32") -> tuple[Any, Any, Any]:
    return (
        floats(2, query_heads, 3, 8).astype(dtype),
        floats(2, heads, 5, 8, seed=1).astype(dtype),
        floats(2, heads, 5, 6, seed=2).astype(dtype),
    )


def _attend(q: Any, k: Any, v: Any, **options: Any) -> list[Any]:
    parts = [
        Heads(relay.var(name, shape=x.shape, dtype=str(x.dtype)), x.shape)
        for name, x in (("q", q), ("k", k), ("v", v))
    ]
    found = attend(*parts, dtype=str(q.dtype), **options)
    assert found.result.shape == (*q.shape[:3], v.shape[3])
    exprs = (found.products, found.capped, found.biased, found.weights, found.result.expr)
    mod = module(*exprs, params=[part.expr for part in parts])
    return run_plain(mod, {"q": q, "k": k, "v": v})


def _check(found: list[Any], expected: list[Any], tolerance: float = 1e-5) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("query_heads", "heads"), [(4, 4), (4, 2), (4, 1)])
def test_groups_of_heads_share_keys(query_heads: int, heads: int) -> None:
    q, k, v = _inputs(query_heads, heads)
    _check(_attend(q, k, v, scale=0.3), _numpy(q, k, v, 0.3))


def test_caps_and_masks_are_applied_in_this_order() -> None:
    q, k, v = _inputs(4, 2)
    mask = Mask()
    mask.keep(causal(3, 5, 2))
    bias = np.where(causal(3, 5, 2), 0, -np.inf)
    found = _attend(q, k, v, scale=1.0, softcap=2.0, mask=mask)
    _check(found, _numpy(q, k, v, 1.0, 2.0, bias))


def test_a_query_that_sees_no_key_has_zeros_or_the_average() -> None:
    q, k, v = _inputs(2, 2)
    mask = Mask()
    mask.keep(causal(3, 5, -1))
    *_, weights, result = _attend(q, k, v, scale=1.0, mask=mask)
    assert not weights[:, :, 0].any()
    assert not result[:, :, 0].any()
    assert result[:, :, 1:].all()
    *_, result = _attend(q, k, v, scale=1.0, mask=mask, is_guarded=False)
    np.testing.assert_allclose(result[:, :, 0], v.mean(2), rtol=1e-5, atol=1e-6)


def test_halves_take_their_softmax_in_single() -> None:
    q, k, v = _inputs(2, 1, "float16")
    found = _attend(q, k, v, scale=0.3)
    assert {str(x.dtype) for x in found} == {"float16"}
    _check(found, _numpy(q, k, v, 0.3), 5e-3)
    _check(_attend(q, k, v, scale=0.3, softmax_dtype="float64"), _numpy(q, k, v, 0.3), 5e-3)


@pytest.mark.parametrize(("scale", "size"), [(2e-8, 200.0), (3e-8, 200.0), (80**-0.5, 4.0)])
def test_a_scale_of_halves_is_not_rounded_to_one(scale: float, size: float) -> None:
    """The first two are below the smallest half, and so are the queries times the second."""
    q, k, v = ((size * x).astype("float16") for x in _inputs(2, 2))
    *_, found = _attend(q, k, v, scale=scale)
    *_, expected = _numpy(q, k, v, scale)
    assert np.abs(found - expected).max() <= 2.0**-10 * np.abs(expected).max()


def test_heads_are_split_and_joined() -> None:
    x = floats(2, 3, 8)
    given = relay.var("x", shape=x.shape)
    heads = split_heads(given, x.shape, 4)
    assert heads.shape == (2, 4, 3, 2)
    assert (heads.count, heads.length, heads.size) == (4, 3, 2)
    found, again = run_plain(module(heads.expr, join_heads(heads)), {"x": x})
    np.testing.assert_array_equal(found, x.reshape(2, 3, 4, 2).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(again, x)


def test_positions_are_appended_to_a_cache() -> None:
    past, x = floats(1, 2, 3, 4), floats(1, 2, 1, 4, seed=1)
    names = [relay.var(n, shape=a.shape) for n, a in (("past", past), ("x", x))]
    heads = append_positions(names[0], past.shape, Heads(names[1], x.shape))
    assert heads.shape == (1, 2, 4, 4)
    found = run_plain(module(heads.expr), {"past": past, "x": x})[0]
    np.testing.assert_array_equal(found, np.concatenate([past, x], 2))
    new = Heads(names[1], x.shape)
    assert append_positions(None, (1, 2, 0, 4), new) is new
