"""The constants of an ONNX model that can be pruned, and pruning them without training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_fusionx.compress.prune.config import PruneConfig
from tvm_fusionx.compress.prune.layouts import (
    CONV,
    CONV_TRANSPOSE,
    EMBEDDING,
    GATES,
    GRU,
    LINEAR,
    LSTM,
    RNN,
    Layout,
)
from tvm_fusionx.compress.prune.pruned_model import PrunedLayer, PrunedModel, layer_row
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, attribute
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.read_model import ModelSource

_RECURRENT = {"LSTM": LSTM, "GRU": GRU, "RNN": RNN}
MATRIX_RANK = 2


def find_constants(graph: ModelGraph) -> list[tuple[Layout, str]]:
    """Return the weights of a prepared model's layers: how they lie, and the constant's name.

    Layers are called by their node (``/conv1/Conv``); of recurrent ones, whose node has two, by
    node and input (``lstm.W``, ``lstm.R``). What several layers share is named once, by the first.
    """
    found: list[tuple[Layout, str]] = []
    seen: set[str] = set()
    for node in graph.nodes:
        for position, name, kind, parts, leading, inputs_first in _weights(graph, node):
            constant = node.input[position]
            if constant in seen or not graph.is_constant(constant):
                continue
            seen.add(constant)
            shape = tuple(graph.constants[constant].dims)
            found.append((Layout(name, kind, shape, parts, leading, inputs_first), constant))
    return found


def _weights(graph: ModelGraph, node: Any) -> Iterator[tuple[int, str, str, int, int, bool]]:
    """Yield position, name, kind, parts, leading axes, and whether inputs lie first."""
    if node.domain not in ("", "ai.onnx"):
        return
    if node.op_type == "Conv":
        yield 1, node.name, CONV, attribute(node, "group", 1), 0, False
    elif node.op_type == "ConvTranspose":
        yield 1, node.name, CONV_TRANSPOSE, attribute(node, "group", 1), 0, True
    elif node.op_type == "Gemm":
        yield 1, node.name, LINEAR, 1, 0, not attribute(node, "transB", 0)
    elif node.op_type == "MatMul" and node.input[1] in graph.constants:
        shape = tuple(graph.constants[node.input[1]].dims)
        if len(shape) >= MATRIX_RANK:
            stack = shape[:-MATRIX_RANK]
            yield 1, node.name, LINEAR, int(np.prod(stack, dtype=int)), len(stack), True
    elif node.op_type == "Gather" and attribute(node, "axis", 0) == 0:
        if _rank(graph, node.input[0]) == MATRIX_RANK:
            yield 0, node.name, EMBEDDING, 1, 0, False
    elif node.op_type in _RECURRENT:
        kind = _RECURRENT[node.op_type]
        for position, letter in ((1, "W"), (2, "R")):
            if node.input[position] in graph.constants:
                directions = graph.constants[node.input[position]].dims[0]
                yield position, f"{node.name}.{letter}", kind, directions * GATES[kind], 1, False


def _rank(graph: ModelGraph, name: str) -> int:
    return len(graph.constants[name].dims) if name in graph.constants else 0


def prune_constants(source: ModelSource, config: PruneConfig) -> PrunedModel:
    """Return an ONNX model whose smallest weights are zero, without any training.

    The model loses accuracy, at high rates all of it: this is for measuring speed, or a beginning.

    Raises
    ------
    ModelError, InputError
        The model is no float32 model or has no layer that the configuration prunes, or the
        configuration names a layer that is not there.
    """
    graph = prepared_graph(source)
    layers = find_constants(graph)
    config.check_names([layout for layout, _ in layers])
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    rows: list[PrunedLayer] = []
    for layout, name in layers:
        array = graph.array(name)
        assert array is not None
        structure, reason = config.structure_of(layout)
        pruned = array
        if structure is not None:
            weights = layout.canonical(array)
            kept = structure.mask(weights, layout.parts)
            pruned = np.where(layout.restored(kept), array, np.float32(0))
            tensors[name].CopyFrom(numpy_helper.from_array(pruned, name))
        rows.append(layer_row(layout, structure, reason, array, pruned))
    if not any(row.structure for row in rows):
        raise ModelError(
            f"model {model.graph.name!r}",
            expected="a layer of constant weights that the configuration prunes",
            found="; ".join(sorted({row.reason for row in rows})) or "no layer of constant weights",
            next_step="Set global_config, or lower weight_threshold.",
        )
    notes = ("Nothing was trained: the model has lost accuracy. Train it with the zeros in place.",)
    return PrunedModel(model, tuple(rows), method="one_shot", seed=None, notes=notes)
