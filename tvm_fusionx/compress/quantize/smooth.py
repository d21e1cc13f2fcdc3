"""SmoothQuant: outliers of activations divided away, and multiplied into the weights behind.

After Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for Large
Language Models" (ICML 2023), equation 4: ``X W = (X / s) (s W)`` with, for each channel,
``s = max|X| ** a / max|W| ** (1 - a)``. The exponent is searched for each tensor, and none is
chosen where that is best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_fusionx.compress.quantize.affine import affine_of, rounded_weights
from tvm_fusionx.compress.quantize.calibrate import Stage
from tvm_fusionx.compress.quantize.model_graph import ModelGraph, drop_unread, with_outputs
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import LAYER, Unit

ALPHAS = (0.25, 0.4, 0.5, 0.6, 0.75, 0.9)

# Rows of a tensor that the search computes with, of all samples together.
ROWS = 256
LEAST = 1e-5

# A division that a norm before takes up costs nothing; another one is a multiplication more in the
# kernel before, and must be worth it: the largest share of the error that may be left.
WORTH_FOLDING, WORTH_MULTIPLYING = 0.9, 0.7

MATRIX_OPS = ("MatMul", "Gemm")


@dataclass(frozen=True)
class Smoothed:
    """What was done to one tensor.

    Attributes
    ----------
    tensor
        Its name.
    alpha
        The exponent.
    error_before, error_after
        Squared error of the layers that read it, relative to the squares of their results.
    folded
        Whether what makes the tensor took the factors up.
    """

    tensor: str
    alpha: float
    error_before: float
    error_after: float
    folded: bool


@dataclass
class _Group:
    """A tensor and the matrix products with constants that read it."""

    tensor: str
    layers: list[tuple[Any, Unit]]
    matrices: list[np.ndarray]
    """``(channels, outputs)``, one for each layer."""


class _Seen:
    """Extremes of each channel over all samples, and some of the rows."""

    def __init__(self) -> None:
        self.low: Any = None
        self.high: Any = None
        self.rows: list[np.ndarray] = []

    def add(self, value: np.ndarray, rows: int) -> None:
        flat = value.reshape(-1, value.shape[-1])
        low, high = flat.min(axis=0), flat.max(axis=0)
        self.low = low if self.low is None else np.minimum(self.low, low)
        self.high = high if self.high is None else np.maximum(self.high, high)
        # Spread over the sample, by a rule and not by chance.
        self.rows.append(flat[:: -(-len(flat) // rows)].copy())


def smooth(
    graph: ModelGraph, units: Sequence[Unit], samples: Samples, engine: str, on_stage: Stage
) -> tuple[Any, list[Smoothed]]:
    """Return a model that computes the same with smaller outliers, and what was changed.

    Parameters
    ----------
    graph
        The prepared model, which stays as it is.
    """
    groups = _groups(graph, units)
    if not groups:
        return graph.model, []
    seen = _look(graph, groups, samples, engine, on_stage)
    model = onnx.ModelProto()
    model.CopyFrom(graph.model)
    writer = _Writer(graph, model)
    done = []
    for number, group in enumerate(groups):
        on_stage(f"smoothing outliers, tensor {number + 1} of {len(groups)}")
        before, best, alpha, factors = _search(group, seen[group.tensor])
        constants = writer.foldable(group)
        limit = WORTH_FOLDING if constants else WORTH_MULTIPLYING
        if best < before * limit:
            writer.apply(group, factors, constants)
            done.append(Smoothed(group.tensor, alpha, before, best, bool(constants)))
    drop_unread(model)
    return model, done


def _groups(graph: ModelGraph, units: Sequence[Unit]) -> list[_Group]:
    nodes = {node.name: node for node in graph.nodes}
    groups: dict[str, _Group] = {}
    for unit in units:
        if unit.kind != LAYER or unit.op not in MATRIX_OPS:
            continue
        node = nodes[unit.name]
        weights = graph.array(node.input[1])
        assert weights is not None
        group = groups.setdefault(node.input[0], _Group(node.input[0], [], []))
        group.layers.append((node, unit))
        group.matrices.append(weights if unit.axis == 1 else weights.T)
    return list(groups.values())


def _look(
    graph: ModelGraph, groups: Sequence[_Group], samples: Samples, engine: str, on_stage: Stage
) -> Mapping[str, _Seen]:
    seen = {group.tensor: _Seen() for group in groups}
    given = {info.name for info in graph.inputs}
    computed = [name for name in seen if name not in given]
    run = runner(with_outputs(graph.model, computed), engine) if computed else None
    rows = max(ROWS // len(samples), 1)
    for number, sample in enumerate(samples):
        on_stage(f"outliers of channels, sample {number + 1} of {len(samples)}")
        values = dict(zip(computed, run(sample), strict=True)) if run is not None else {}
        for name, each in seen.items():
            each.add(values[name] if name in values else sample[name], rows)
    return seen


def _search(group: _Group, seen: _Seen) -> tuple[float, float, float, np.ndarray]:
    """Return the error as it is, the least error, and the exponent and factors that give it."""
    rows = np.concatenate(seen.rows)
    largest = np.maximum(np.maximum(np.abs(seen.low), np.abs(seen.high)), LEAST)
    weights = np.max([np.abs(each).max(axis=1) for each in group.matrices], axis=0)
    exact = [rows @ matrix for matrix in group.matrices]
    ones = np.ones_like(largest)
    before = _error(group, seen, rows, exact, ones)
    best = (before, 0.0, ones)
    for alpha in ALPHAS:
        factors = largest**alpha / np.maximum(weights, LEAST) ** (1 - alpha)
        # Only their proportions matter: one for all would change the numbers and nothing else.
        factors = (factors / np.exp(np.log(factors).mean())).astype(np.float32)
        error = _error(group, seen, rows, exact, factors)
        if error < best[0]:
            best = (error, alpha, factors)
    return before, *best


def _error(
    group: _Group,
    seen: _Seen,
    rows: np.ndarray,
    exact: Sequence[np.ndarray],
    factors: np.ndarray,
) -> float:
    bounds = float((seen.low / factors).min()), float((seen.high / factors).max())
    data = affine_of(bounds, "uint8").rounded(rows / factors)
    wrong = right = 0.0
    for matrix, result in zip(group.matrices, exact, strict=True):
        found = data @ rounded_weights(matrix * factors[:, None], 1)
        wrong += float(np.square(found - result, dtype=np.float64).sum())
        right += float(np.square(result, dtype=np.float64).sum())
    return wrong / right if right else wrong


class _Writer:
    """Writes factors into a copy of a model."""

    def __init__(self, graph: ModelGraph, model: Any) -> None:
        self.graph, self.model = graph, model
        self.nodes = {node.name: node for node in model.graph.node}

    def foldable(self, group: _Group) -> list[tuple[Any, int]]:
        """Return the constants, by node and position, that divided by the factors divide a tensor.

        They are the gain and shift of a norm that only the group reads; empty where there is none.
        """
        channels = len(group.matrices[0])
        if not self._is_alone(group.tensor, [node for node, _ in group.layers]):
            return []
        node = self.graph.producers.get(group.tensor)
        if node is None:
            return []
        if node.op_type == "LayerNormalization":
            found = [(node, position) for position in range(1, len(node.input))]
            return found if all(self._is_row(*each, channels) for each in found) else []
        found = []
        if node.op_type == "Add":
            found = self._row_of(node, channels)
            if not found:
                return []
            above = node.input[1 - found[0][1]]
            node = self.graph.producers.get(above)
            if node is None or not self._is_alone(above, [found[0][0]]):
                return []
        if node.op_type != "Mul":
            return []
        gain = self._row_of(node, channels)
        return gain + found if gain else []

    def _row_of(self, node: Any, channels: int) -> list[tuple[Any, int]]:
        return [(node, at) for at in range(2) if self._is_row(node, at, channels)][:1]

    def _is_row(self, node: Any, position: int, channels: int) -> bool:
        array = self.graph.array(node.input[position])
        return array is not None and array.shape == (channels,) and array.dtype == np.float32

    def _is_alone(self, tensor: str, readers: Sequence[Any]) -> bool:
        names = {node.name for node in readers}
        return tensor not in self.graph.outputs and all(
            node.name in names for node, _ in self.graph.readers[tensor]
        )

    def apply(
        self, group: _Group, factors: np.ndarray, constants: Sequence[tuple[Any, int]]
    ) -> None:
        for node, position in constants:
            array = self.graph.array(node.input[position])
            assert array is not None
            self._set(node, position, array / factors)
        if not constants:
            self._divide(group, factors)
        for node, unit in group.layers:
            weights = self.graph.array(node.input[1])
            assert weights is not None
            along = factors[:, None] if unit.axis == 1 else factors[None, :]
            self._set(node, 1, weights * along)

    def _set(self, node: Any, position: int, array: np.ndarray) -> None:
        """Give an input of a node a constant of its own: others may read the old one."""
        name = f"{node.name}.smoothed.{position}"
        self.model.graph.initializer.append(numpy_helper.from_array(np.float32(array), name))
        self.nodes[node.name].input[position] = name

    def _divide(self, group: _Group, factors: np.ndarray) -> None:
        name = f"{group.tensor}.smoothed"
        self.model.graph.initializer.append(
            numpy_helper.from_array(np.float32(1 / factors), f"{name}.factors")
        )
        made = helper.make_node("Mul", [group.tensor, f"{name}.factors"], [name], name=name)
        for node, _ in group.layers:
            self.nodes[node.name].input[0] = name
        order = list(self.model.graph.node)
        first = min(order.index(self.nodes[node.name]) for node, _ in group.layers)
        self.model.graph.node.insert(first, made)
        info = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        self.model.graph.value_info.append(info)
