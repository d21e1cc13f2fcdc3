"""A model's Relay: what it takes and returns, and which of its weights are one."""

from __future__ import annotations

from pathlib import Path

import pytest

import tvm_fusionx as fx
from tests.relay_modules import operator_names
from tests.tiny_llama import Tiny, write_tiny

CACHE = 16


@pytest.mark.parametrize("all_logits", [False, True])
def test_inputs_and_results(tmp_path: Path, all_logits: bool) -> None:
    path, tiny = tmp_path / "tiny.gguf", Tiny()
    write_tiny(path)
    mod, params = fx.from_gguf(path, tokens=4, cache=CACHE, all_logits=all_logits)
    names = [param.name_hint for param in mod["main"].params]
    first = ["tokens", "position", *([] if all_logits else ["last"])]
    caches = [f"{side}_{layer}" for layer in range(tiny.layers) for side in ("keys", "values")]
    assert names == [*first, *caches, *params]
    shapes = [tuple(int(extent) for extent in each.shape) for each in mod["main"].ret_type.fields]
    kept = [(tiny.groups, tiny.size, 4), (tiny.groups, 4, tiny.size)]
    assert shapes == [(4 if all_logits else 1, tiny.vocabulary), *kept * tiny.layers]


def test_one_product_makes_queries_keys_and_values(tmp_path: Path) -> None:
    path, tiny = tmp_path / "tiny.gguf", Tiny()
    write_tiny(path)
    mod, params = fx.from_gguf(path)
    names = operator_names(mod["main"])
    assert names.count("fusionx.block_dense_with_minima") == 5 * tiny.layers
    assert names.count("fusionx.block_dense") == 1
    assert params["layer0.query_key_value.levels"].shape == (64 + 2 * 32, 2, 16)
    assert params["embedding.levels"].dtype == "int8"
    assert not any(name.startswith("head") for name in params)


def test_products_of_rounded_data(tmp_path: Path) -> None:
    path, tiny = tmp_path / "tiny.gguf", Tiny()
    write_tiny(path)
    mod, _ = fx.from_gguf(path, activations="int8")
    names = operator_names(mod["main"])
    assert names.count("fusionx.rounded_block_dense_with_minima") == 5 * tiny.layers
    assert names.count("fusionx.rounded_block_dense") == 1
    assert not any(name.startswith("fusionx.block_dense") for name in names)
