"""Blocks around filters with zeros of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tests.relay_modules import var
from tests.schedules.sparse_blocks import Array, Post, Window, window_attributes
from tvm_fusionx.expressions.sparse_filters import (
    FILTERS,
    FilterPlanes,
    register_sparse_filters,
)
from tvm_fusionx.layout.sparse_filters import by_kernel
from tvm_fusionx.sparse.filters import Filters, find_filters, store_filters


def scattered(case: Window, density: float, seed: int = 0) -> Array:
    """Return a random weight ``[O, K]`` of which any number may be zero."""
    draw = np.random.default_rng(seed)
    weight = draw.standard_normal((case.outputs, case.columns)).astype("float32")
    weight[draw.random(weight.shape) >= density] = 0
    return weight


def patterned(case: Window, kept: float, patterns: int = 4, taps: int = 4, seed: int = 0) -> Array:
    """Return a random weight ``[O, K]``: of each kernel a pattern of its own, or nothing."""
    draw = np.random.default_rng(seed)
    g, window = case.geometry, case.kernel**2
    masks = np.zeros((patterns, window), bool)
    for mask in masks:
        mask[draw.choice(window, taps, replace=False)] = True
    shape = (case.outputs, g.chunks, g.lanes)
    mask = masks[draw.integers(0, patterns, shape)]
    mask &= (draw.random(shape) < kept)[..., None]
    found = mask.transpose(0, 1, 3, 2).reshape(case.outputs, -1)
    return draw.standard_normal(found.shape).astype("float32") * found


def filters_of(case: Window, weight: Array, *, by_pattern: bool) -> Filters:
    """Return a weight's filters, by pattern or number by number."""
    found = find_filters(by_kernel(weight, case.geometry))
    return found[-1 if by_pattern else 0]


def filter_window(
    case: Window,
    weight: Array,
    post: Post = lambda y: y,
    *,
    by_pattern: bool = False,
    rows: int | None = None,
    data: Any = None,
    is_constant: bool = False,
) -> Any:
    """Return Relay of filters over an image ``x``, in pieces of so many rows, and their storage."""
    register_sparse_filters()
    g = case.geometry
    filters = filters_of(case, weight, by_pattern=by_pattern)
    planes = FilterPlanes(g, rows or g.result[0], filters.patterns)
    stored = store_filters(filters, planes, case.outputs // case.lanes)
    attrs = window_attributes(case, planes.text)
    x = var("x", case.images, g.chunks, case.height, case.width, g.lanes) if data is None else data
    weights = [
        relay.const(array) if is_constant else var(name, *array.shape, dtype=str(array.dtype))
        for name, array in (("values", stored.values), ("index", stored.index))
    ]
    return post(relay.Call(relay.op.get(FILTERS), [x, *weights], attrs)), stored


def case(*, by_pattern: bool) -> Any:
    """Return windows in two pieces whose filters are constants."""
    window = Window(1, 8, 8, 7, 9, lanes=4)
    weight = patterned(window, 0.5) if by_pattern else scattered(window, 0.2)
    post = relay.nn.relu
    body, _ = filter_window(window, weight, post, by_pattern=by_pattern, rows=4, is_constant=True)
    return body
