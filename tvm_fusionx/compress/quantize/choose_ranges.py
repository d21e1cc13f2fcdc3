"""The range of each tensor: of four, the one with which its readers compute the least wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvm_fusionx.compress.quantize.affine import Affine, affine_of
from tvm_fusionx.compress.quantize.calibrate import Stage
from tvm_fusionx.compress.quantize.histogram import Histogram
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, drop_unread, with_outputs
from tvm_fusionx.compress.quantize.placement import Placement, place
from tvm_fusionx.compress.quantize.ranges import AUTO, METHODS, MINMAX
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Sample, Samples
from tvm_fusionx.compress.quantize.units import SUM, Unit

# Samples on which ranges are compared: enough to tell which is best, of all that were counted.
COMPARED_SAMPLES = 8
# Tensors whose values are in memory together.
TENSORS_AT_ONCE = 16

SCALE, ZERO = "fusionx.scale", "fusionx.zero"


@dataclass(frozen=True)
class ChosenRange:
    """How a tensor is quantised.

    Attributes
    ----------
    affine
        Scale and zero point.
    method
        Whose range it is.
    errors
        For each method that was compared, the squared error of what reads the tensor relative to
        the squares of the result.
    """

    affine: Affine
    method: str
    errors: Mapping[str, float]


def choose_ranges(
    graph: ModelGraph,
    units: Sequence[Unit],
    histograms: Mapping[str, Histogram],
    samples: Samples,
    engine: str,
    *,
    method: str,
    dtype: str,
    on_stage: Stage,
) -> dict[str, ChosenRange]:
    """Return the range of each tensor that has a histogram.

    Parameters
    ----------
    method
        One of :data:`METHODS` for all tensors, or ``"auto"``.
    dtype
        ``"uint8"`` or ``"int8"``.
    """
    affines = {
        name: {
            each: affine_of(find(histogram), dtype)
            for each, find in METHODS.items()
            if method in (AUTO, each)
        }
        for name, histogram in histograms.items()
    }
    if method != AUTO:
        return {name: ChosenRange(row[method], method, {}) for name, row in affines.items()}
    placement = place(graph, units, {unit.name for unit in units})
    errors: dict[str, dict[str, float]] = {}
    quantised = [name for name in placement.edges if name not in placement.shared]
    for start in range(0, len(quantised), TENSORS_AT_ONCE):
        part = quantised[start : start + TENSORS_AT_ONCE]
        on_stage(f"comparing ranges, tensor {start + 1} of {len(quantised)}")
        errors.update(_compared(graph, units, placement, part, affines, samples, engine))
    chosen = {}
    for name, row in affines.items():
        of_it = errors.get(name, {})
        # Of equals the first: the widest.
        best = min(of_it, key=lambda each: of_it[each]) if of_it else MINMAX
        chosen[name] = ChosenRange(row[best], best, of_it)
    return chosen


def _compared(
    graph: ModelGraph,
    units: Sequence[Unit],
    placement: Placement,
    tensors: Sequence[str],
    affines: Mapping[str, Mapping[str, Affine]],
    samples: Samples,
    engine: str,
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield, by the tensor whose range it is, each method's error."""
    cuts = {name: _Cut(graph, units, placement, name) for name in tensors}
    wanted = list(dict.fromkeys(name for cut in cuts.values() for name in cut.inputs))
    given = {info.name for info in graph.inputs}
    computed = [name for name in wanted if name not in given]
    run = runner(with_outputs(graph.model, computed), engine) if computed else None
    values: list[Sample] = []
    for sample in islice(samples, COMPARED_SAMPLES):
        made = dict(zip(computed, run(sample), strict=True)) if run is not None else {}
        values.append({**{name: sample[name] for name in wanted if name in given}, **made})
    for name, cut in cuts.items():
        source = placement.range_of(graph, name)
        if cut.outputs:
            yield source, cut.errors(values, affines[source], engine)


class _Cut:
    """The part of a model between a tensor and the layers that read it."""

    def __init__(
        self, graph: ModelGraph, units: Sequence[Unit], placement: Placement, tensor: str
    ) -> None:
        self.graph, self.tensor = graph, tensor
        by_name = {unit.name: unit for unit in units}
        nodes: dict[str, Any] = {}
        self.outputs: list[str] = []
        waiting = [node for node, _ in placement.edges[tensor]]
        while waiting:
            node = waiting.pop()
            if node.name in nodes or (by_name.get(node.name) or _NO_UNIT).kind == SUM:
                continue
            nodes[node.name] = node
            if node.name in by_name:
                self.outputs.append(node.output[0])
            else:
                waiting += [reader for reader, _ in graph.readers[node.output[0]]]
        self.nodes = [node for node in graph.nodes if node.name in nodes]
        made = {name for node in self.nodes for name in node.output}
        read = [name for node in self.nodes for name in node.input if name]
        self.inputs = [name for name in dict.fromkeys([tensor, *read]) if graph.is_activation(name)]
        self.inputs = [name for name in self.inputs if name not in made]
        others = set(read) - made - set(self.inputs) - set(graph.constants)
        if others:
            # A shape that is computed: what reads it is not cut out.
            self.outputs = []

    def errors(
        self, values: Sequence[Sample], affines: Mapping[str, Affine], engine: str
    ) -> dict[str, float]:
        dtype = next(iter(affines.values())).dtype
        run = runner(self._model(dtype), engine)
        found = {}
        for method, affine in affines.items():
            rounding = {
                SCALE: np.array(affine.scale, np.float32),
                ZERO: np.array(affine.zero, dtype),
            }
            wrong = right = 0.0
            for value in values:
                outputs = run({**{name: value[name] for name in self.inputs}, **rounding})
                half = len(outputs) // 2
                for exact, rounded in zip(outputs[:half], outputs[half:], strict=True):
                    wrong += float(np.square(rounded - exact, dtype=np.float64).sum())
                    right += float(np.square(exact, dtype=np.float64).sum())
            found[method] = wrong / right if right else wrong
        return found

    def _model(self, dtype: str) -> Any:
        """Return a model that computes the outputs of floats, and with the tensor rounded."""
        integers, floats = "fusionx.integers", "fusionx.floats"
        nodes = [
            helper.make_node("QuantizeLinear", [self.tensor, SCALE, ZERO], [integers]),
            helper.make_node("DequantizeLinear", [integers, SCALE, ZERO], [floats]),
        ]
        made = {name for node in self.nodes for name in node.output if name}
        for node in self.nodes:
            rounded = onnx.NodeProto()
            rounded.CopyFrom(node)
            rounded.name += ".rounded"
            for position, name in enumerate(node.input):
                if name == self.tensor:
                    rounded.input[position] = floats
                elif name in made:
                    rounded.input[position] = f"{name}.rounded"
            for position, name in enumerate(node.output):
                rounded.output[position] = f"{name}.rounded" if name else name
            nodes += [node, rounded]
        elements = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in self.inputs]
        inputs += [
            helper.make_tensor_value_info(SCALE, TensorProto.FLOAT, ()),
            helper.make_tensor_value_info(ZERO, elements[dtype], ()),
        ]
        names = [*self.outputs, *(f"{name}.rounded" for name in self.outputs)]
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
        read = {name for node in nodes for name in node.input}
        constants = [tensor for name, tensor in self.graph.constants.items() if name in read]
        cut = helper.make_graph(nodes, "cut", inputs, outputs, constants)
        model = helper.make_model(
            cut,
            opset_imports=list(self.graph.model.opset_import),
            ir_version=self.graph.model.ir_version,
        )
        drop_unread(model)
        return model


_NO_UNIT = Unit("", "", "")
