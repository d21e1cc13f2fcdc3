from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.compress.quantize.small_networks import ENGINE, graph_of, ignore, pictures, residual
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.affine import affine_of
from tvm_fusionx.compress.quantize.calibrate import observe, tensors_to_observe
from tvm_fusionx.compress.quantize.layer_times import (
    LayerTime,
    time_layers,
    time_on_this_machine,
)
from tvm_fusionx.compress.quantize.ranges import minmax_range
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import find_units
from tvm_fusionx.compress.quantize.write_qdq import write_qdq

TYPES = {TensorProto.FLOAT: "float32", TensorProto.UINT8: "uint8", TensorProto.INT8: "int8"}


class _Timer:
    """Runs each program once, by ONNX Runtime, and answers with its number."""

    def __init__(self) -> None:
        self.programs: list[tuple[list[str], str, str]] = []

    def __call__(self, model: Any, target: str) -> float:
        (given,) = model.graph.input
        shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
        dtype = TYPES[given.type.tensor_type.elem_type]
        (result,) = runner(model, ENGINE)({given.name: np.ones(shape, dtype)})
        operators = [node.op_type for node in model.graph.node]
        self.programs.append((operators, dtype, str(result.dtype)))
        return float(len(self.programs))


def test_a_layer_is_timed_as_each_model_stores_it() -> None:
    graph = graph_of(residual())
    units = find_units(graph)
    samples = Samples(pictures(2), graph.inputs)
    histograms = observe(graph, tensors_to_observe(graph, units), samples, ENGINE, ignore)
    affines = {name: affine_of(minmax_range(each), "uint8") for name, each in histograms.items()}
    whole = write_qdq(graph, units, {unit.name for unit in units}, affines)
    timer = _Timer()
    times = time_layers(graph, whole, units, samples, ENGINE, "llvm", ignore, timer)
    layers = [unit.name for unit in units if unit.kind == "layer"]
    # Between the other two and their integers lies a move: a pool, and a flattening.
    assert list(times) == layers[:2]
    assert times[layers[0]] == LayerTime(1, 2)
    assert times[layers[0]].is_slower
    plain, integers = timer.programs[:2]
    assert plain == (["Conv", "Relu"], "float32", "float32")
    assert integers[1:] == ("uint8", "uint8")
    assert integers[0].count("DequantizeLinear") == 3
    assert integers[0][-1] == "QuantizeLinear"
    # The sum behind the second convolution is no part of it: its result is not stored as bytes.
    assert timer.programs[3][1:] == ("uint8", "float32")


def test_equal_times_are_no_gain() -> None:
    assert LayerTime(1.0, 1.0).is_slower
    assert not LayerTime(1.0, 0.9).is_slower


@pytest.mark.slow
def test_a_program_takes_time() -> None:
    layers = Layers(4, 8)
    model = layers.model(layers.add("MatMul", "x", layers.weights(8, 8)))
    assert 0 < time_on_this_machine(model, "llvm -mcpu=native") < 1000
