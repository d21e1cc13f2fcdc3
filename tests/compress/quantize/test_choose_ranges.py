from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.compress.quantize.small_networks import ENGINE, graph_of, ignore, pictures, residual
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.calibrate import observe, tensors_to_observe
from tvm_fusionx.compress.quantize.choose_ranges import ChosenRange, choose_ranges
from tvm_fusionx.compress.quantize.ranges import AUTO, METHODS, MINMAX, PERCENTILE_NAME
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import find_units

ROWS = 1024


def _chosen(model: Any, samples: list[Any], method: str = AUTO) -> Mapping[str, ChosenRange]:
    graph = graph_of(model)
    units = find_units(graph)
    inputs = Samples(samples, graph.inputs)
    histograms = observe(graph, tensors_to_observe(graph, units), inputs, ENGINE, ignore)
    return choose_ranges(
        graph, units, histograms, inputs, ENGINE, method=method, dtype="uint8", on_stage=ignore
    )


def _product(weight_of_outlier: float) -> Any:
    layers = Layers(1, ROWS, 16)
    weights = np.random.default_rng(0).normal(size=(16, 8)).astype("float32")
    weights[3] *= weight_of_outlier
    return layers.model(layers.add("MatMul", "x", layers.constant(weights)))


def _with_outliers() -> list[Any]:
    samples = pictures(4, 4, (1, ROWS, 16))
    # One value in 65,536: percentiles cut it off.
    samples[0]["x"][0, 0, 3] = 40
    return samples


def test_the_error_is_that_of_the_product_in_numpy() -> None:
    samples = _with_outliers()
    model = _product(1.0)
    chosen = _chosen(model, samples)["x"]
    assert set(chosen.errors) == set(METHODS)
    weights = graph_of(model).array(graph_of(model).nodes[0].input[1])
    x = np.concatenate([sample["x"][0] for sample in samples])
    for method in METHODS:
        rounded = _chosen(model, samples, method)["x"].affine.rounded(x)
        wrong = np.square((rounded - x) @ weights).sum() / np.square(x @ weights).sum()
        assert chosen.errors[method] == pytest.approx(wrong, rel=1e-3)
    assert chosen.method == min(chosen.errors, key=lambda name: chosen.errors[name])


def test_outliers_that_matter_stay_and_others_go() -> None:
    samples = _with_outliers()
    matter = _chosen(_product(30.0), samples)["x"]
    assert matter.affine.bounds[1] > 39
    assert matter.errors[PERCENTILE_NAME] > 10 * matter.errors[MINMAX]
    # Of no weight at all: cutting it off costs nothing and makes the steps finer.
    idle = _chosen(_product(0.0), samples)["x"]
    assert idle.method != MINMAX
    assert idle.errors[idle.method] < idle.errors[MINMAX] / 10


def test_every_tensor_has_a_range_and_it_is_the_methods() -> None:
    samples = pictures()
    chosen = _chosen(residual(), samples)
    compared = [each for each in chosen.values() if each.errors]
    assert len(compared) == 5
    for each in compared:
        assert each.errors[each.method] == min(each.errors.values())
    assert {each.method for each in _chosen(residual(), samples, "mse").values()} == {"mse"}
