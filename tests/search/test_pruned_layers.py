from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from tests.search.small_spaces import CNNS, TRANSFORMERS
from tvm_fusionx.compress.prune.structures import sparsity_of
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.pruned_layers import (
    kept_weights,
    layouts_of,
    prune_model,
    pruned_weights,
    structure_of,
)
from tvm_fusionx.search.space import Candidate
from tvm_fusionx.search.space_file import parse_space


def candidate_of(content: dict[str, Any], symbol: str, **choices: Any) -> Candidate:
    """Return the first network of a space, every layer pruned alike."""
    scheme, _, rate = symbol.partition(":")
    pruning = {"schemes": ["none", scheme], "rates": [float(rate)]}
    space = parse_space({**content, "pruning": pruning})

    def pick(name: str, options: tuple[Any, ...]) -> Any:
        wanted = symbol if name.endswith(".pruning") else choices.get(name.rpartition(".")[2])
        return wanted if wanted in options else options[0]

    return space.walk(pick)


def _arrays(candidate: Candidate) -> dict[str, np.ndarray]:
    model = prune_model(onnx_network(candidate), candidate)
    return {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}


@pytest.mark.parametrize(
    ("symbol", "sparsity"), [("block8x1:0.75", 0.75), ("pattern:0.75", 0.75), ("filter:0.5", 0.5)]
)
def test_a_layers_weights_get_the_zeros_of_its_symbol(symbol: str, sparsity: float) -> None:
    candidate = candidate_of({**CNNS, "side": 4}, symbol, width=16, kernel=3, expansion=2)
    candidate["choices"] |= {"stage0.width": 32, "stage1.width": 32}
    named = {weight.layout.name: weight for weight in pruned_weights(candidate)}
    arrays = _arrays(candidate)
    wide = "l1_window_weight"
    assert named[wide].layout.shape == arrays[wide].shape == (64, 64, 3, 3)
    assert sparsity_of(arrays[wide]) == pytest.approx(sparsity, abs=0.01)
    # What no symbol names has none.
    assert {name for name in arrays if not arrays[name].all()} <= set(named)
    if symbol.startswith("filter"):
        cut = ~arrays[wide].any(axis=(1, 2, 3))
        assert cut.sum() == 32
        assert all(len(set(group)) == 1 for group in cut.reshape(-1, 16))
    if symbol.startswith("pattern"):
        # A kernel of one entry has no pattern.
        assert not any("expand" in name or "project" in name for name in named)


def test_matrices_are_pruned_along_their_outputs() -> None:
    candidate = candidate_of(TRANSFORMERS, "block8x1:0.5", layers=1)
    arrays = _arrays(candidate)
    wide = arrays["l1_wide_weight"]
    assert wide.shape == (16, 16)
    assert sparsity_of(wide) == 0.5
    for row in (wide != 0).reshape(16, 2, 8):
        assert all(len(set(block)) == 1 for block in row.tolist())
    # Tables and the last layer have no symbol.
    assert arrays["l0_table"].all()
    assert arrays["l2_classes_weight"].all()


def test_a_window_for_each_channel_stays_dense() -> None:
    candidate = candidate_of(CNNS, "block8x1:0.5", kind="depthwise")
    names = {weight.layout.name for weight in pruned_weights(candidate)}
    # The picture has one channel, so the first window is a whole convolution all the same.
    assert names == {"l0_window_weight", "l0_project_weight", "l1_project_weight"}


def test_equal_layers_get_equal_zeros() -> None:
    candidate = candidate_of(CNNS, "block4x1:0.5", depth=2, kernel=3)
    candidate["choices"]["stage0.width"] = 8
    arrays = _arrays(candidate)
    assert np.array_equal(arrays["l1_window_weight"] != 0, arrays["l2_window_weight"] != 0)
    again = _arrays(candidate)
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_no_pruning_is_no_structure() -> None:
    assert structure_of("none") is None
    block = structure_of("block4x2:0.5")
    assert block is not None
    assert (block.block_size, block.target_sparsity) == ((4, 2), 0.5)


def test_what_is_kept_is_what_no_zero_is() -> None:
    candidate = candidate_of({**CNNS, "side": 4}, "block4x1:0.5", depth=1, kernel=3)
    kept, has = kept_weights(candidate)
    arrays = _arrays(candidate)
    products = [arrays[layout.name] for layout in layouts_of(candidate)]
    assert has == sum(each.size for each in products)
    # Tiles are whole: a share of them is rounded.
    assert kept == pytest.approx(sum(np.count_nonzero(each) for each in products), rel=0.05)
    assert kept < has
    dense = candidate_of(CNNS, "block4x1:0.5")
    dense["choices"] |= {n: "none" for n in dense["choices"] if n.endswith(".pruning")}
    assert kept_weights(dense)[0] == kept_weights(dense)[1]
