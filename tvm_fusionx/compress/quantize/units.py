"""What can be quantised: layers, products of activations, pools, sums, tables.

A *unit* is one node of the model that reads integers where it is quantised, and floats where the
guard keeps it. Softmax and norms are no units: they stay floats, and so does a sum before a norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.compress.quantize.model_graph import ModelGraph, attribute

LAYER, PRODUCT, POOL, SUM, TABLE = "layer", "product", "pool", "sum", "table"

# What reads the mean of a tensor, whose rounding would then be everywhere.
NORMS = frozenset(
    """LayerNormalization ReduceMean InstanceNormalization GroupNormalization RMSNormalization
    SimplifiedLayerNormalization LpNormalization""".split()
)
MATRIX_RANK = 2


@dataclass(frozen=True)
class Unit:
    """A node that can read integers.

    Attributes
    ----------
    name, op
        The node's name and operator.
    kind
        ``"layer"`` has weights, ``"product"`` multiplies two activations; these and a ``"pool"``
        want their data quantised. A ``"sum"`` reads integers where another unit wants them.
        A ``"table"`` has weights and no data.
    data
        Positions of the inputs that are activations.
    weights, axis, bias
        Position of constant weights, their axis of output channels, position of a constant bias.
    """

    name: str
    op: str
    kind: str
    data: tuple[int, ...] = ()
    weights: int | None = None
    axis: int = 0
    bias: int | None = None


def find_units(graph: ModelGraph, *, products: bool = False) -> list[Unit]:
    """Return the units of a model in its order.

    Parameters
    ----------
    graph
        A prepared model.
    products
        Whether products of two activations are units.
    """
    found = []
    for node in graph.nodes:
        make = UNITS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        unit = None if make is None else make(graph, node)
        if unit is not None and (products or unit.kind != PRODUCT):
            found.append(unit)
    return found


def _convolution(graph: ModelGraph, node: Any) -> Unit | None:
    if not graph.is_activation(node.input[0]) or not graph.is_constant(node.input[1]):
        return None
    bias = 2 if _has_constant(graph, node, 2) else None
    return Unit(node.name, node.op_type, LAYER, (0,), 1, 0, bias)


def _gemm(graph: ModelGraph, node: Any) -> Unit | None:
    if not graph.is_activation(node.input[0]) or not graph.is_constant(node.input[1]):
        return None
    if attribute(node, "transA", 0) or attribute(node, "alpha", 1.0) != 1.0:
        return None
    axis = 0 if attribute(node, "transB", 0) else 1
    is_plain = attribute(node, "beta", 1.0) == 1.0 and _has_constant(graph, node, 2)
    return Unit(node.name, node.op_type, LAYER, (0,), 1, axis, 2 if is_plain else None)


def _matrix_product(graph: ModelGraph, node: Any) -> Unit | None:
    first, second = node.input
    if not graph.is_activation(first):
        return None
    if graph.is_activation(second):
        return Unit(node.name, node.op_type, PRODUCT, (0, 1))
    weights = graph.array(second) if graph.is_constant(second) else None
    if weights is None or weights.ndim != MATRIX_RANK:
        return None
    return Unit(node.name, node.op_type, LAYER, (0,), 1, 1)


def _pool(graph: ModelGraph, node: Any) -> Unit | None:
    return Unit(node.name, node.op_type, POOL, (0,)) if _all_computed(graph, node) else None


def _sum(graph: ModelGraph, node: Any) -> Unit | None:
    is_of_norm = any(reader.op_type in NORMS for reader, _ in graph.readers[node.output[0]])
    if is_of_norm or not _all_computed(graph, node):
        return None
    return Unit(node.name, node.op_type, SUM, tuple(range(len(node.input))))


def _table(graph: ModelGraph, node: Any) -> Unit | None:
    name = node.input[0]
    table = graph.array(name) if graph.is_constant(name) else None
    is_rows = table is not None and table.ndim == MATRIX_RANK and attribute(node, "axis", 0) == 0
    # A scale for each column: rows are chosen by the data.
    return Unit(node.name, node.op_type, TABLE, (), 0, 1) if is_rows else None


def _all_computed(graph: ModelGraph, node: Any) -> bool:
    return all(graph.is_activation(name) for name in node.input)


def _has_constant(graph: ModelGraph, node: Any, position: int) -> bool:
    return len(node.input) > position and graph.is_constant(node.input[position])


UNITS: dict[str, Callable[[ModelGraph, Any], Unit | None]] = {
    "Conv": _convolution,
    "Gemm": _gemm,
    "MatMul": _matrix_product,
    "AveragePool": _pool,
    "GlobalAveragePool": _pool,
    "Add": _sum,
    "Mul": _sum,
    "Concat": _sum,
    "Gather": _table,
}
