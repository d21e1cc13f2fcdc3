"""Clusters by numpy: what they are by definition, element by element, and what they save."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reuse_layers import Numbers, drawn, exact
from tvm_fusionx.reuse.clusters import SINGLE, unfold
from tvm_fusionx.reuse.layer import ReuseLayer


def _by_hand(layer: ReuseLayer, numbers: Numbers) -> np.ndarray:
    """Return the rows of the result, each number of each segment by itself."""
    rows = unfold(layer, numbers.data).astype("float64")
    weights = numbers.weights.astype("float64")
    found = np.zeros((len(rows), layer.channels))
    for group in np.split(np.arange(len(rows)), layer.groups):
        for number, segment in enumerate(layer.segments):
            cut = slice(segment.column, segment.column + segment.length)
            members: dict[tuple[bool, ...], list[int]] = {}
            for row in group:
                sums = rows[row, cut] @ numbers.projections[: segment.length]
                code = tuple(sums > numbers.thresholds[number])
                if code in members or len(members) < layer.clusters:
                    members.setdefault(code, []).append(int(row))
                else:
                    found[row] += rows[row, cut] @ weights[cut]
            for alike in members.values():
                vectors = rows[alike, cut]
                one = vectors.mean(0) if layer.takes_mean else vectors[0]
                found[alike] += one @ weights[cut]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_clusters_by_definition(seed: int) -> None:
    layer = drawn(seed)
    numbers = Numbers.drawn(layer, seed)
    found = numbers.clustered(layer).result.transpose(0, 2, 3, 1).reshape(-1, layer.channels)
    np.testing.assert_allclose(found, _by_hand(layer, numbers), rtol=0, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_equal_segments_cost_one_product_and_nothing_else(seed: int) -> None:
    layer = exact(drawn(seed))
    numbers = Numbers.drawn(layer, seed)
    # Three numbers occur, and these projections and thresholds tell them from each other.
    numbers = replace(
        numbers,
        projections=np.ones((1, 2), "float32"),
        thresholds=np.tile(np.float32([0.5, 1.5]), (layer.segment_count, 1)),
    )
    made = numbers.clustered(layer)
    rows = unfold(layer, numbers.data) @ numbers.weights
    found = made.result.transpose(0, 2, 3, 1).reshape(rows.shape)
    np.testing.assert_allclose(found, rows, rtol=0, atol=1e-3)
    assert made.counts.max() <= 3
    assert made.singles == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_what_finds_no_place_is_computed_singly(seed: int, limit: int) -> None:
    layer = replace(drawn(seed), limit=limit)
    made = Numbers.drawn(layer, seed).clustered(layer)
    assert made.counts.max() <= limit
    assert made.clusters.max() < limit
    assert made.singles == (made.clusters == SINGLE).sum()
    assert 0 < made.computed_share <= 1


def test_images_of_a_batch_share_clusters_where_they_may() -> None:
    layer = replace(drawn(3), images=2, limit=4096, per_batch=False)
    data = Numbers.drawn(layer).data
    data[1] = data[0]
    apart = replace(Numbers.drawn(layer), data=data)
    shared = replace(layer, per_batch=True)
    assert apart.clustered(layer).counts.sum() == 2 * apart.clustered(shared).counts.sum()
