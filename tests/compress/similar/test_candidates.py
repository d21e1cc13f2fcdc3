"""Ways to put rows together: what they leave of the products, how far they err, what they cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.reuse_models import images, network
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.similar.candidates import (
    Candidate,
    best_of,
    candidates_of,
    lengths_of,
    most_gain,
)
from tvm_fusionx.compress.similar.layers import Layer, find_layers
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.reuse.clusters import cluster, unfold
from tvm_fusionx.schedules import resolve_target

TARGET = resolve_target("llvm -mcpu=znver4 -num-cores=2")
CPU = describe_cpu(TARGET)
SAMPLES = [images(seed=seed) for seed in range(2)]


@pytest.fixture(scope="module")
def layer() -> Layer:
    return find_layers(prepared_graph(network()), {"x": (2, 3, 12, 12)}, TARGET, CPU)[0]


@pytest.fixture(scope="module")
def ways(layer: Layer) -> list[Candidate]:
    return list(candidates_of(layer, SAMPLES, CPU, bits=(1, 4, 10)))


def test_every_length_with_every_number_of_bits(layer: Layer, ways: list[Candidate]) -> None:
    assert lengths_of(layer) == (9,)
    assert [(way.choice.length, way.choice.bits) for way in ways] == [(9, 1), (9, 4), (9, 10)]
    assert [way.hashing_share for way in ways] == [1 / 16, 4 / 16, 10 / 16]


def test_what_is_told_is_what_numpy_finds(layer: Layer, ways: list[Candidate]) -> None:
    way = ways[1]
    choice = way.choice
    reused = layer.reused(choice)
    wrong = right = 0.0
    shares = []
    for data in SAMPLES:
        made = cluster(reused, data, layer.weights, choice.projections(), choice.threshold_array())
        exact = unfold(reused, data) @ layer.weights
        found = made.result.transpose(0, 2, 3, 1).reshape(exact.shape)
        wrong += float(np.square(found - exact).sum())
        right += float(np.square(exact).sum())
        shares.append(made.computed_share)
        assert made.singles == 0
        assert made.counts.max() <= choice.limit
    assert way.error == pytest.approx(np.sqrt(wrong / right))
    assert way.computed_share == pytest.approx(np.mean(shares))


def test_thresholds_are_the_projections_of_the_mean(layer: Layer, ways: list[Candidate]) -> None:
    choice = ways[0].choice
    rows = np.concatenate([unfold(layer.reused(choice), data) for data in SAMPLES])
    expected = rows.mean(0).reshape(3, 9) @ choice.projections()
    np.testing.assert_allclose(choice.threshold_array(), expected, rtol=1e-5, atol=1e-5)


def test_more_bits_tell_more_apart(ways: list[Candidate]) -> None:
    shares = [way.computed_share for way in ways]
    assert shares == sorted(shares)
    assert ways[-1].error < ways[0].error


def test_the_fastest_whose_error_is_small_enough(ways: list[Candidate]) -> None:
    errors = sorted(way.error for way in ways)
    assert best_of(ways, errors[-1]) is max(ways, key=lambda way: way.gain)
    assert best_of(ways, errors[0] / 2) is min(ways, key=lambda way: way.error)
    fast = replace(ways[-1], dense_cycles=1e12)
    assert best_of([*ways, fast], errors[-1]) is fast
    assert best_of([], 1.0) is None


def test_ways_that_can_gain_nothing_are_not_tried(layer: Layer, ways: list[Candidate]) -> None:
    most = most_gain(layer, CPU, bits=(1, 4, 10))
    assert most > max(way.gain for way in ways)
    assert not list(candidates_of(layer, SAMPLES, CPU, bits=(1, 4), least_gain=most * 2))
