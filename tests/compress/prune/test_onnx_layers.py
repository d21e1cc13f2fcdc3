from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

from tests.compress.quantize.small_networks import ENGINE, pictures, residual, transformer_layer
from tvm_fusionx.compress.prune.onnx_layers import find_constants, prune_constants
from tvm_fusionx.compress.prune.read_config import parse_config
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.errors import InputError, ModelError

BLOCKS = parse_config(
    {
        "global_config": {"structure": "block", "block_size": 4, "target_sparsity": 0.75},
        "op_type_configs": {"conv": {"structure": "pattern", "group_size": 4}},
        "weight_threshold": 100,
    }
)


def test_layers_are_cut_and_the_rest_is_as_it_was() -> None:
    model = residual()
    before = prepared_graph(model)
    result = prune_constants(model, BLOCKS)
    told = {row.kind: row for row in result.layers}
    assert told["linear"].structure == "block 4x1"
    assert [row.structure for row in result.layers] == ["pattern /4"] * 2 + ["", "block 4x1"]
    assert result.layers[2].reason == "its kernels have one entry"
    assert "lost accuracy" in result.text()
    after = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    for layout, name in find_constants(before):
        old, new = before.array(name), after[name]
        assert old is not None
        row = next(each for each in result.layers if each.name == layout.name)
        assert row.zeros == new.size - np.count_nonzero(new)
        assert (new[new != 0] == old[new != 0]).all()
    # A model that runs, and whose weights that stay are the largest.
    outputs = runner(result.model, ENGINE)(pictures(1)[0])
    assert np.isfinite(outputs[0]).all()
    assert told["linear"].kept_energy > 0.25


def test_matrices_of_a_transformer_are_cut_by_their_outputs() -> None:
    result = prune_constants(transformer_layer(), BLOCKS)
    after = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    matrices = [array for array in after.values() if array.shape == (32, 32)]
    assert len(matrices) == 4
    for matrix in matrices:
        # (inputs, outputs): four outputs lose an input together.
        blocks = (matrix != 0).reshape(32, 8, 4)
        assert (blocks == blocks[:, :, :1]).all()
        assert blocks.mean() == 0.25


def test_a_layer_can_be_named_and_a_wrong_name_is_told() -> None:
    names = [layout.name for layout, _ in find_constants(prepared_graph(residual()))]
    config = {"op_name_configs": {names[1]: {"target_sparsity": 0.5}}}
    result = prune_constants(residual(), parse_config(config))
    assert [bool(row.structure) for row in result.layers] == [False, True, False, False]
    with pytest.raises(InputError, match="Did you mean"):
        prune_constants(residual(), parse_config({"op_name_configs": {names[1] + "x": None}}))


def test_a_model_with_nothing_to_prune_is_told() -> None:
    with pytest.raises(ModelError, match="not to be pruned"):
        prune_constants(residual(), parse_config({"weight_threshold": 0}))
    table = {"global_config": {"target_sparsity": 0.5}, "weight_threshold": 100000}
    with pytest.raises(ModelError, match="fewer than 100000 weights"):
        prune_constants(residual(), parse_config(table))


def test_layers_that_torch_wrote_have_their_parts() -> None:
    pytest.importorskip("torch")
    from tests.compress.prune.small_modules import example, mixed
    from tvm_fusionx.compress.prune.export import export_module

    model = export_module(mixed(), example())
    graph = prepared_graph(model)
    found = [
        (layout.kind, layout.parts, layout.canonical_shape) for layout, _ in find_constants(graph)
    ]
    assert {
        ("conv", 1, (8, 2, 3, 3)),
        ("conv", 2, (8, 4, 3, 3)),
        ("conv_transpose", 2, (6, 4, 3, 3)),
        ("embedding", 1, (20, 6)),
        # Two directions of four gates, and one of three.
        ("lstm", 8, (64, 6)),
        ("lstm", 8, (64, 8)),
        ("gru", 3, (24, 16)),
        ("gru", 3, (24, 8)),
        ("linear", 1, (24, 8)),
        ("linear", 1, (4, 8)),
    } <= set(found)
    words = {"structure": "block", "block_size": 8, "target_sparsity": 0.5}
    result = prune_constants(model, parse_config({"global_config": words, "weight_threshold": 0}))
    after = {t.name: numpy_helper.to_array(t) for t in result.model.graph.initializer}
    (weights,) = (array for array in after.values() if array.shape == (2, 32, 6))
    gates = (weights != 0).reshape(8, 8, 6)
    assert (gates == gates[:, :1]).all()
    assert gates.mean() == 0.5
