from __future__ import annotations

from tests.compress.quantize.small_networks import graph_of, residual
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.compress.quantize.placement import Placement, moved_from, place
from tvm_fusionx.compress.quantize.units import find_units


def _placed(
    model: object, *, without: str = "", products: bool = False
) -> tuple[ModelGraph, Placement]:
    graph = graph_of(model)
    units = find_units(graph, products=products)
    active = {unit.name for unit in units if unit.op != without}
    return graph, place(graph, units, active)


def _makers(graph: ModelGraph, placement: Placement) -> list[str]:
    made = (graph.producers.get(name) for name in placement.edges)
    return sorted("input" if node is None else node.op_type for node in made)


def test_tensors_are_quantised_behind_activations_and_before_pools() -> None:
    graph, placement = _placed(residual())
    # The input, three ReLUs (one of a sum, before its pool), and the mean before it is flat.
    assert _makers(graph, placement) == ["GlobalAveragePool", "Relu", "Relu", "Relu", "input"]


def test_a_sum_reads_what_is_quantised_for_a_layer() -> None:
    _, placement = _placed(residual())
    first = next(name for name in placement.edges if name == "y1")
    assert sorted(node.op_type for node, _ in placement.edges[first]) == ["Add", "Conv"]
    _, placement = _placed(residual(), without="Add")
    assert [node.op_type for node, _ in placement.edges["y1"]] == ["Conv"]


def test_a_layer_in_float_reads_the_float() -> None:
    _, placement = _placed(residual(), without="Conv")
    readers = {node.op_type for edges in placement.edges.values() for node, _ in edges}
    assert readers == {"GlobalAveragePool", "Flatten"}


def _moved(extra: bool) -> object:
    layers = Layers(1, 4, 16)
    made = layers.add("Sigmoid", "x")
    turned = layers.add("Transpose", made, perm=[0, 2, 1])
    product = layers.add("MatMul", turned, layers.weights(4, 8))
    if extra:
        product = layers.add("Concat", product, layers.add("Softmax", turned), axis=2)
    return layers.model(product)


def test_a_move_carries_integers_unless_something_reads_its_floats() -> None:
    graph, placement = _placed(_moved(extra=False))
    assert _makers(graph, placement) == ["Sigmoid"]
    graph, placement = _placed(_moved(extra=True))
    assert _makers(graph, placement) == ["Transpose"]
    (tensor,) = placement.edges
    assert placement.range_of(graph, tensor) == moved_from(graph, tensor) == "y0"


def test_parts_of_a_concatenation_share_its_scale() -> None:
    layers = Layers(1, 8, 6, 6)
    parts = [layers.add("Relu", layers.conv("x", 8, 8, 1)) for _ in range(2)]
    whole = layers.add("Concat", *parts, axis=1)
    model = layers.model(layers.conv(whole, 8, 16, 1))
    graph, placement = _placed(model)
    assert placement.shared == dict.fromkeys(parts, whole)
    assert placement.range_of(graph, parts[0]) == whole
    _, placement = _placed(model, without="Concat")
    assert not placement.shared


def test_both_sides_of_a_product_are_quantised() -> None:
    layers = Layers(1, 4, 16)
    left = layers.add("Sigmoid", "x")
    right = layers.add("Transpose", layers.add("Tanh", "x"), perm=[0, 2, 1])
    model = layers.model(layers.add("MatMul", left, right))
    graph, placement = _placed(model, products=True)
    assert _makers(graph, placement) == ["Sigmoid", "Tanh"]
