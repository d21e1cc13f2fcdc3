"""A prepared model of floats, with quantizations and dequantizations written into it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_fusionx.compress.quantize.affine import (
    Affine,
    channel_scales,
    quantized_weights,
    scales_for_bias,
)
from tvm_fusionx.compress.quantize.clips import drop_clips
from tvm_fusionx.compress.quantize.model_graph import INNER, ModelGraph, drop_unread
from tvm_fusionx.compress.quantize.placement import Placement, place
from tvm_fusionx.compress.quantize.units import TABLE, Unit

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def write_qdq(
    graph: ModelGraph,
    units: Sequence[Unit],
    active: Collection[str],
    affines: Mapping[str, Affine],
) -> Any:
    """Return the model in which the units named in `active` read integers.

    Parameters
    ----------
    graph
        The prepared model, which stays as it is.
    units
        All units of it.
    affines
        Scale and zero point by tensor: of what :meth:`Placement.range_of` names.
    """
    return _Writer(graph, units, active, affines).write()


class _Writer:
    def __init__(
        self,
        graph: ModelGraph,
        units: Sequence[Unit],
        active: Collection[str],
        affines: Mapping[str, Affine],
    ) -> None:
        self.graph, self.affines = graph, affines
        self.placement: Placement = place(graph, units, active)
        self.model = onnx.ModelProto()
        self.model.CopyFrom(graph.model)
        self.nodes = {node.name: node for node in self.model.graph.node}
        self.taken = {name for node in graph.nodes for name in (*node.input, *node.output)}
        self.active = [unit for unit in units if unit.name in active]
        # Nodes to put before, or behind, the node of that name; None stands for the beginning.
        self.before: dict[str | None, list[Any]] = {}
        self.behind: dict[str | None, list[Any]] = {}

    def write(self) -> Any:
        for tensor in self.placement.edges:
            self._quantize(tensor)
        for unit in self.active:
            if unit.kind == TABLE:
                self._table(unit)
            elif unit.weights is not None:
                self._weights(unit)
        ordered = list(self.behind.get(None, ()))
        for node in self.model.graph.node:
            ordered += [*self.before.get(node.name, ()), node, *self.behind.get(node.name, ())]
        kept = [_copied(node) for node in ordered]
        del self.model.graph.node[:]
        self.model.graph.node.extend(kept)
        drop_clips(self.model)
        drop_unread(self.model)
        onnx.checker.check_model(self.model)
        return self.model

    def _affine(self, tensor: str) -> Affine:
        return self.affines[self.placement.range_of(self.graph, tensor)]

    def _name(self, wanted: str) -> str:
        name, number = wanted, 0
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def _constant(self, name: str, array: np.ndarray) -> str:
        name = self._name(name)
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _parameters(self, tensor: str) -> list[str]:
        affine = self._affine(tensor)
        scale = self._constant(f"{tensor}.scale", np.array(affine.scale, np.float32))
        zero = self._constant(f"{tensor}.zero", np.array(affine.zero, affine.dtype))
        return [scale, zero]

    def _quantize(self, tensor: str) -> None:
        """Put a quantization behind a tensor, and let its readers dequantize."""
        parameters = self._parameters(tensor)
        integers, floats = self._name(f"{tensor}.integers"), self._name(f"{tensor}.dequantized")
        nodes = [
            helper.make_node(QUANTIZE, [tensor, *parameters], [integers], name=integers),
            helper.make_node(DEQUANTIZE, [integers, *parameters], [floats], name=floats),
        ]
        producer = self.graph.producers.get(tensor)
        key = None if producer is None else producer.name
        self.behind.setdefault(key, []).extend(nodes)
        for node, position in self.placement.edges[tensor]:
            if position != INNER:
                self.nodes[node.name].input[position] = floats

    def _weights(self, unit: Unit) -> None:
        node = self.graph_node(unit)
        assert unit.weights is not None
        weights = self.graph.array(node.input[unit.weights])
        assert weights is not None
        scales = channel_scales(weights, unit.axis)
        bias = None if unit.bias is None else self.graph.array(node.input[unit.bias])
        data_scale = self._affine(self._source_of(unit)).scale
        if bias is not None and bias.shape == scales.shape:
            scales = scales_for_bias(scales, bias, data_scale)
            bias_scales = np.float32(data_scale) * scales
            steps = np.rint(bias.astype(np.float64) / bias_scales).astype(np.int32)
            assert unit.bias is not None
            self._dequantized(unit, unit.bias, "bias", steps, bias_scales, 0, None)
        integers = quantized_weights(weights, unit.axis, scales)
        zeros = np.zeros(scales.shape, np.int8)
        self._dequantized(unit, unit.weights, "weights", integers, scales, unit.axis, zeros)

    def graph_node(self, unit: Unit) -> Any:
        """Return the unit's node in the model of floats."""
        return self.graph.producers[self.nodes[unit.name].output[0]]

    def _source_of(self, unit: Unit) -> str:
        """Return the quantised tensor that a unit's data come from, through moves."""
        tensor = str(self.graph_node(unit).input[unit.data[0]])
        while tensor not in self.placement.edges:
            tensor = str(self.graph.producers[tensor].input[0])
        return tensor

    def _dequantized(
        self,
        unit: Unit,
        position: int,
        what: str,
        integers: np.ndarray,
        scales: np.ndarray,
        axis: int,
        zeros: np.ndarray | None,
    ) -> None:
        """Let an input of a unit be constant integers, dequantized before it."""
        inputs = [
            self._constant(f"{unit.name}.{what}", integers),
            self._constant(f"{unit.name}.{what}.scale", scales),
        ]
        if zeros is not None:
            inputs.append(self._constant(f"{unit.name}.{what}.zero", zeros))
        floats = self._name(f"{unit.name}.{what}.dequantized")
        made = helper.make_node(DEQUANTIZE, inputs, [floats], name=floats, axis=axis)
        self.before.setdefault(unit.name, []).append(made)
        self.nodes[unit.name].input[position] = floats

    def _table(self, unit: Unit) -> None:
        """Choose rows of a table of bytes, and dequantize the rows alone."""
        node = self.nodes[unit.name]
        table = self.graph.array(self.graph_node(unit).input[0])
        assert table is not None
        scales = channel_scales(table, unit.axis)
        node.input[0] = self._constant(
            f"{unit.name}.table", quantized_weights(table, unit.axis, scales)
        )
        floats = str(node.output[0])
        node.output[0] = self._name(f"{unit.name}.rows")
        inputs = [
            node.output[0],
            self._constant(f"{unit.name}.scale", scales),
            self._constant(f"{unit.name}.zero", np.zeros(scales.shape, np.int8)),
        ]
        # The columns are the last axis, whatever the shape of the numbers of rows.
        name = self._name(f"{unit.name}.dequantized")
        made = helper.make_node(DEQUANTIZE, inputs, [floats], name=name, axis=-1)
        self.behind.setdefault(unit.name, []).insert(0, made)


def _copied(node: Any) -> Any:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
