"""Clusters that calls share, in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.reuse_layers import Numbers, drawn, exact
from tvm_fusionx.reuse.across_calls import keep, kept_products, look_up
from tvm_fusionx.reuse.clusters import SINGLE, cluster
from tvm_fusionx.reuse.kept import MOST_KEPT


def test_data_that_was_kept_gives_what_a_call_finds_itself() -> None:
    layer = replace(drawn(4), images=1, bits=5, limit=4096, takes_mean=True)
    numbers = Numbers.drawn(layer)
    given = (numbers.projections, numbers.thresholds)
    kept = keep(layer, [numbers.data], *given)
    shared = replace(layer, kept=kept.most)
    found = look_up(shared, numbers.data, numbers.weights, *given, kept)
    own = cluster(layer, numbers.data, numbers.weights, *given)
    assert np.abs(found.result - own.result).max() <= 1e-5 * np.abs(own.result).max()
    assert (found.singles, found.counts.sum()) == (0, 0)
    assert found.computed_share == 0


def test_a_code_that_was_not_seen_is_computed() -> None:
    # Segments of one number, whose clusters are equal numbers: 0, 1 and 2.
    layer = exact(replace(drawn(4), images=2))
    numbers = Numbers.drawn(layer)
    projections = np.ones((1, 2), "float32")
    thresholds = np.tile(np.array([0.5, 1.5], "float32"), (layer.segment_count, 1))
    seen = np.minimum(numbers.data, 1)
    kept = keep(layer, [seen], projections, thresholds)
    shared = replace(layer, kept=kept.most)
    found = look_up(shared, numbers.data, numbers.weights, projections, thresholds, kept)
    truth = cluster(layer, numbers.data, numbers.weights, projections, thresholds).result
    assert np.abs(found.result - truth).max() <= 1e-5 * np.abs(truth).max()
    twos = (found.clusters == SINGLE).mean()
    assert 0.1 < twos < 0.5
    assert found.computed_share == twos


def test_the_most_frequent_codes_are_kept() -> None:
    layer = replace(drawn(4), images=3, bits=10, length=16, limit=4096)
    numbers = Numbers.drawn(layer)
    kept = keep(layer, [numbers.data], numbers.projections, numbers.thresholds)
    assert kept.most <= MOST_KEPT
    products = kept_products(layer, kept, numbers.weights)
    assert products.shape == (layer.segment_count, kept.most, layer.channels)
    assert kept.why_wrong(layer.length, layer.bits, layer.segment_count) is None
