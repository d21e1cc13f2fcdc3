from __future__ import annotations

import numpy as np

from tests.compress.quantize.small_networks import graph_of, residual, transformer_layer
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.units import (
    LAYER,
    POOL,
    PRODUCT,
    SUM,
    TABLE,
    Unit,
    find_units,
)


def _units(model: object, *, products: bool = False) -> list[Unit]:
    return find_units(graph_of(model), products=products)


def test_layers_sums_and_pools_of_a_small_network() -> None:
    units = _units(residual())
    assert [(unit.op, unit.kind) for unit in units] == [
        ("Conv", LAYER),
        ("Conv", LAYER),
        ("Add", SUM),
        ("Conv", LAYER),
        ("GlobalAveragePool", POOL),
        ("Gemm", LAYER),
    ]
    assert units[0].bias == 2
    assert units[0].axis == 0
    assert units[-1].axis == 1


def test_products_of_activations_only_where_wanted() -> None:
    model = transformer_layer()
    assert [unit.kind for unit in _units(model)] == [LAYER] * 4
    kinds = [unit.kind for unit in _units(model, products=True)]
    assert sorted(kinds) == [LAYER] * 4 + [PRODUCT] * 2


def test_a_turned_product_has_its_channels_first() -> None:
    layers = Layers(4, 16)
    y = layers.add("Gemm", "x", layers.weights(8, 16), layers.weights(8), transB=1)
    (unit,) = _units(layers.model(y))
    assert (unit.axis, unit.bias) == (0, 2)


def test_a_product_with_factors_has_no_bias_and_a_turned_one_is_none() -> None:
    layers = Layers(16, 16)
    y = layers.add("Gemm", "x", layers.weights(16, 16), layers.weights(16), beta=0.5)
    (unit,) = _units(layers.model(y))
    assert unit.bias is None
    layers = Layers(16, 16)
    y = layers.add("Gemm", "x", layers.weights(16, 16), transA=1)
    assert not _units(layers.model(y))


def test_a_sum_before_a_norm_stays_float() -> None:
    layers = Layers(1, 4, 16)
    product = layers.add("MatMul", "x", layers.weights(16, 16))
    total = layers.add("Add", product, "x")
    row = layers.constant(np.ones(16, "float32"))
    normed = layers.add("LayerNormalization", total, row, axis=-1)
    assert [unit.op for unit in _units(layers.model(normed))] == ["MatMul"]


def test_rows_of_a_table() -> None:
    layers = Layers(2, 16)
    table = layers.weights(50, 16)
    rows = layers.add("Gather", table, layers.constant(np.array([1, 7])))
    layers.add("Add", layers.add("MatMul", "x", layers.weights(16, 16)), rows)
    graph = graph_of(layers.model("y2"))
    # Folding takes known rows out; a table is one where the rows are computed.
    assert not [unit for unit in find_units(graph) if unit.kind == TABLE]
