from __future__ import annotations

import numpy as np
import pytest

from tests.compress.quantize.small_networks import (
    ENGINE,
    graph_of,
    ignore,
    pictures,
    residual,
    transformer_layer,
)
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.calibrate import observe, tensors_to_observe
from tvm_fusionx.compress.quantize.model_graph import with_outputs
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import find_units
from tvm_fusionx.errors import InputError


def test_every_tensor_is_counted_over_all_samples() -> None:
    graph = graph_of(residual())
    names = tensors_to_observe(graph, find_units(graph))
    samples = Samples(pictures(), graph.inputs)
    told: list[str] = []
    found = observe(graph, names, samples, ENGINE, told.append)
    assert told[-1] == f"ranges of {len(names)} tensors, sample 4 of 4"
    computed = [name for name in names if name != "x"]
    run = runner(with_outputs(graph.model, computed), ENGINE)
    values = [dict(zip(computed, run(sample), strict=True)) for sample in samples]
    for name in computed:
        everything = np.concatenate([each[name].ravel() for each in values])
        assert found[name].count == everything.size
        assert (found[name].low, found[name].high) == (
            min(everything.min(), found[name].low),
            everything.max(),
        )
    assert found["x"].count == 4 * 8 * 8 * 8


def test_only_what_may_be_stored_as_integers_is_counted() -> None:
    graph = graph_of(residual())
    names = tensors_to_observe(graph, find_units(graph))
    made = {graph.producers[name].op_type for name in names if name in graph.producers}
    # What a convolution makes before its ReLU is no tensor of the fused program.
    assert made == {"Relu", "GlobalAveragePool", "MaxPool"}
    graph = graph_of(transformer_layer())
    names = tensors_to_observe(graph, find_units(graph))
    assert {graph.producers[name].op_type for name in names} == {"LayerNormalization", "MatMul"}


def test_a_value_that_is_no_number_is_told() -> None:
    layers = Layers(1, 16)
    root = layers.add("Sqrt", "x")
    graph = graph_of(layers.model(layers.add("MatMul", root, layers.weights(16, 8))))
    samples = Samples([np.full((1, 16), -1, "float32")], graph.inputs)
    with pytest.raises(InputError, match="calibration sample 0"):
        observe(graph, [root], samples, ENGINE, ignore)
