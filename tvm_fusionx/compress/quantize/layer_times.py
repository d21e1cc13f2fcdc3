"""The compiler in the loop: what a layer takes in float and on integers, each built as one program.

The float program reads and writes floats; the other reads bytes, and writes bytes where the layer's
result is quantised: what the two models store. The activation behind a layer belongs to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import tvm
from onnx import TensorProto, helper

from tvm_fusionx.build.build import build
from tvm_fusionx.compress.quantize.calibrate import Stage
from tvm_fusionx.compress.quantize.clips import QUANTIZE, clip_bounds
from tvm_fusionx.compress.quantize.model_graph import FLOAT, ModelGraph, drop_unread, with_outputs
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import LAYER, Unit
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.report.bench.plain_tvm import load

REPEATS, LEAST_MS = 5, 20

Timer = Callable[[Any, str], float]
"""From a model whose shapes are known, and a target, to milliseconds a run."""


@dataclass(frozen=True)
class LayerTime:
    """Milliseconds of one layer."""

    float_ms: float
    int8_ms: float

    @property
    def is_slower(self) -> bool:
        """Tell whether integers are no faster."""
        return self.int8_ms >= self.float_ms


def time_on_this_machine(model: Any, target: str) -> float:
    """Return the least of several mean times of a run of `model`, built for `target`, in ms."""
    mod, params = from_onnx(model)
    executor = load(build(mod, target, params))
    taken = executor.benchmark(
        tvm.cpu(), repeat=REPEATS, number=1, min_repeat_ms=LEAST_MS, end_to_end=False
    )
    return float(min(taken.results)) * 1000


def time_layers(
    graph: ModelGraph,
    quantised: Any,
    units: Sequence[Unit],
    samples: Samples,
    engine: str,
    target: str,
    on_stage: Stage,
    timer: Timer = time_on_this_machine,
) -> dict[str, LayerTime]:
    """Return the times of each layer with weights, by name.

    Parameters
    ----------
    graph
        The prepared model in float.
    quantised
        The model in which all units are quantised.
    timer
        Measures one program.
    """
    layers = [unit for unit in units if unit.kind == LAYER]
    nodes = {node.name: node for node in graph.nodes}
    wanted = [_input_of(graph, nodes[unit.name]) for unit in layers]
    shapes = _shapes(graph, wanted, samples, engine)
    after = ModelGraph(quantised)
    times = {}
    for number, unit in enumerate(layers):
        on_stage(f"timing layers, {number + 1} of {len(layers)}")
        tensor = _input_of(graph, nodes[unit.name])
        node = {each.name: each for each in after.nodes}[unit.name]
        last = _behind(graph, nodes[unit.name])
        plain = _cut(graph, tensor, FLOAT, shapes[tensor], last.output[0], FLOAT)
        integers = _integers_read(after, node)
        if integers is None:
            continue
        result, element = _result(after, node)
        dtype = _element_of(after, integers)
        shape = shapes[tensor]
        times[unit.name] = LayerTime(
            timer(plain, target),
            timer(_cut(after, integers, dtype, shape, result, element), target),
        )
    return times


def _input_of(graph: ModelGraph, node: Any) -> str:
    return str(node.input[0])


def _shapes(
    graph: ModelGraph, tensors: Sequence[str], samples: Samples, engine: str
) -> dict[str, tuple[int, ...]]:
    (sample,) = islice(samples, 1)
    computed = list(dict.fromkeys(name for name in tensors if name not in sample))
    values = runner(with_outputs(graph.model, computed), engine)(sample) if computed else []
    found = {name: value.shape for name, value in zip(computed, values, strict=True)}
    return {**{name: value.shape for name, value in sample.items()}, **found}


def _behind(graph: ModelGraph, node: Any) -> Any:
    """Return the activation that alone reads a node, or the node."""
    readers = graph.readers[node.output[0]]
    if len(readers) == 1 and node.output[0] not in graph.outputs:
        ((reader, _),) = readers
        if clip_bounds(graph, reader) is not None:
            return reader
    return node


def _integers_read(graph: ModelGraph, node: Any) -> str | None:
    """Return the integers that a layer dequantizes; None where moves lie between."""
    made = graph.producers.get(node.input[0])
    is_direct = made is not None and made.op_type == "DequantizeLinear"
    return str(made.input[0]) if made is not None and is_direct else None


def _result(graph: ModelGraph, node: Any) -> tuple[str, int]:
    """Return what the program of integers writes: bytes where its result is quantised at once."""
    last = _behind(graph, node)
    for reader, _ in graph.readers[last.output[0]]:
        if reader.op_type == QUANTIZE:
            return str(reader.output[0]), _element_of(graph, str(reader.output[0]))
    return str(last.output[0]), FLOAT


def _element_of(graph: ModelGraph, integers: str) -> int:
    made = graph.producers[integers]
    zero = graph.array(made.input[2])
    is_unsigned = zero is not None and zero.dtype == np.uint8
    return int(TensorProto.UINT8 if is_unsigned else TensorProto.INT8)


def _cut(
    graph: ModelGraph,
    source: str,
    element: int,
    shape: Sequence[int],
    result: str,
    result_element: int,
) -> Any:
    """Return the part of a model that makes `result` of `source`."""
    needed: set[str] = set()
    waiting = [result]
    while waiting:
        name = waiting.pop()
        node = graph.producers.get(name)
        if node is not None and name != source and node.name not in needed:
            needed.add(node.name)
            waiting += [each for each in node.input if each]
    nodes = [node for node in graph.nodes if node.name in needed]
    cut = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info(source, element, shape)],
        [helper.make_tensor_value_info(result, result_element, None)],
        list(graph.constants.values()),
    )
    model = helper.make_model(
        cut, opset_imports=list(graph.model.opset_import), ir_version=graph.model.ir_version
    )
    drop_unread(model)
    return model
