from __future__ import annotations

import numpy as np

from tests.compress.prune.small_modules import mixed, nn, torch
from tvm_fusionx.compress.prune.torch_layers import find_layers, tensor_like, values_of


def test_every_kind_of_layer_is_found_with_its_parts() -> None:
    found = {
        layout.name: (layout.kind, layout.parts, layout.canonical_shape)
        for layout, _ in find_layers(mixed())
    }
    assert found == {
        "table": ("embedding", 1, (20, 6)),
        "features.0": ("conv", 1, (8, 2, 3, 3)),
        "grouped": ("conv", 2, (8, 4, 3, 3)),
        "back": ("conv_transpose", 2, (6, 4, 3, 3)),
        "lstm.weight_ih_l0": ("lstm", 4, (32, 6)),
        "lstm.weight_hh_l0": ("lstm", 4, (32, 8)),
        "lstm.weight_ih_l0_reverse": ("lstm", 4, (32, 6)),
        "lstm.weight_hh_l0_reverse": ("lstm", 4, (32, 8)),
        "gru.weight_ih_l0": ("gru", 3, (24, 16)),
        "gru.weight_hh_l0": ("gru", 3, (24, 8)),
        "attention.in_proj_weight": ("attention", 3, (24, 8)),
        "attention.out_proj": ("linear", 1, (8, 8)),
        "head": ("linear", 1, (4, 8)),
    }


def test_a_shared_parameter_is_named_once() -> None:
    module = nn.Sequential(nn.Embedding(6, 4), nn.Linear(4, 6, bias=False))
    module[1].weight = module[0].weight
    assert [layout.name for layout, _ in find_layers(module)] == ["0"]
    assert [layout.name for layout, _ in find_layers(nn.Linear(2, 2))] == ["weight"]


def test_cells_and_projections_have_their_gates() -> None:
    module = nn.ModuleList([nn.LSTMCell(3, 4), nn.LSTM(3, 4, proj_size=2)])
    parts = {layout.name: layout.parts for layout, _ in find_layers(module)}
    assert parts["0.weight_ih"] == 4
    assert parts["1.weight_hr_l0"] == 1


def test_values_there_and_back() -> None:
    parameter = nn.Parameter(torch.ones(2, 3, dtype=torch.bfloat16))
    values = values_of(parameter)
    assert values.dtype == np.float32
    assert tensor_like(parameter, values * 2).dtype == torch.bfloat16
