from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compress.quantize.small_networks import (
    ENGINE,
    graph_of,
    ignore,
    operators,
    pictures,
    residual,
    sentences,
    transformer_layer,
)
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.smooth import Smoothed, smooth
from tvm_fusionx.compress.quantize.units import find_units


def _smoothed(model: Any, samples: list[Any]) -> tuple[Any, list[Smoothed]]:
    graph = graph_of(model)
    inputs = Samples(samples, graph.inputs)
    before = graph.model.SerializeToString(deterministic=True)
    changed, done = smooth(graph, find_units(graph), inputs, ENGINE, ignore)
    assert graph.model.SerializeToString(deterministic=True) == before
    (exact,), (found,) = (runner(each, ENGINE)(samples[0]) for each in (model, changed))
    assert np.abs(found - exact).max() <= 1e-5 * np.abs(exact).max()
    return changed, done


def test_outliers_behind_a_norm_go_into_its_gain() -> None:
    changed, done = _smoothed(transformer_layer(), sentences())
    # The group of queries, keys and values, which share one tensor.
    folded = [each for each in done if each.folded]
    assert len(folded) == 1
    assert folded[0].error_after < folded[0].error_before / 4
    assert 0 < folded[0].alpha < 1
    assert operators(changed).count("Mul") == operators(transformer_layer()).count("Mul") + sum(
        not each.folded for each in done
    )


def _norm_of_old_exports(others: bool) -> Any:
    layers = Layers(1, 8, 32)
    gain = np.ones(32, "float32")
    gain[5] = 50
    scaled = layers.add("Mul", "x", layers.constant(gain))
    normed = layers.add("Add", scaled, layers.constant(np.full(32, 0.1, "float32")))
    product = layers.add("MatMul", normed, layers.weights(32, 32))
    return layers.model(layers.add("Add", product, normed) if others else product)


@pytest.mark.parametrize("others", [False, True])
def test_a_tensor_that_others_read_is_divided_by_a_node_of_its_own(others: bool) -> None:
    changed, done = _smoothed(_norm_of_old_exports(others), sentences())
    assert [each.folded for each in done] == [not others]
    assert operators(changed).count("Mul") == 1 + others


def test_nothing_is_done_where_it_does_not_help() -> None:
    layers = Layers(1, 64, 16)
    model = layers.model(layers.add("MatMul", "x", layers.weights(16, 16)))
    _, done = _smoothed(model, pictures(4, 2, (1, 64, 16)))
    assert not done


def test_convolutions_are_left_alone() -> None:
    layers = Layers(1, 8, 8, 8)
    model = layers.model(layers.conv("x", 8, 8, 3))
    graph = graph_of(model)
    samples = Samples(pictures(2), graph.inputs)
    assert smooth(graph, find_units(graph), samples, ENGINE, ignore) == (graph.model, [])
    _smoothed(residual(), pictures())
