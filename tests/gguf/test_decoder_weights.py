"""Weights as Relay multiplies them: heads turn by halves; tensors without a use are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_gpt2 import write_tiny_gpt2
from tests.tiny_llama import Tiny, write_tiny
from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.block_tensor import BlockTensor
from tvm_fusionx.gguf.decoder_shape import decoder_shape
from tvm_fusionx.gguf.decoder_weights import decoder_weights
from tvm_fusionx.gguf.read import read_gguf


def test_pairs_that_turn_together_are_half_a_head_apart(tmp_path: Path) -> None:
    path, size = tmp_path / "tiny.gguf", Tiny().size
    held = write_tiny(path)["blk.1.attn_q.weight"]
    file = read_gguf(path)
    query = decoder_weights(file, decoder_shape(file)).layers[1].query.weight
    assert isinstance(query, BlockTensor)
    second_head = query.floats()[size : 2 * size]
    np.testing.assert_array_equal(second_head[: size // 2], held[size : 2 * size : 2])
    np.testing.assert_array_equal(second_head[size // 2 :], held[size + 1 : 2 * size : 2])


@pytest.mark.parametrize("own_head", [False, True])
def test_the_head_may_be_the_embedding(tmp_path: Path, own_head: bool) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path, tiny=Tiny(own_head=own_head))
    file = read_gguf(path)
    weights = decoder_weights(file, decoder_shape(file))
    assert (weights.head is weights.embedding) != own_head


def test_a_tensor_without_a_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path)
    file = read_gguf(path)
    tensors = {**file.tensors, "blk.0.attn_q.bias": file.tensors["output_norm.weight"]}
    with pytest.raises(ModelError, match=r"tensor 'blk\.0\.attn_q\.bias': .*found 1 others"):
        decoder_weights(replace(file, tensors=tensors), decoder_shape(file))


def test_one_tensor_makes_queries_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    held = write_tiny_gpt2(path)
    file = read_gguf(path)
    layer = decoder_weights(file, decoder_shape(file)).layers[0]
    rows = [part.weight.floats() for part in (layer.query, layer.key, layer.value)]
    np.testing.assert_array_equal(np.concatenate(rows), held["blk.0.attn_qkv.weight"])
    biases = [part.bias for part in (layer.query, layer.key, layer.value)]
    np.testing.assert_array_equal(np.concatenate(biases), held["blk.0.attn_qkv.bias"])
    assert layer.gate is None


def test_a_missing_bias_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny_gpt2(path)
    file = read_gguf(path)
    tensors = {name: held for name, held in file.tensors.items() if name != "output_norm.bias"}
    with pytest.raises(ModelError, match=r"tensor 'output_norm\.bias': .*found no such tensor"):
        decoder_weights(replace(file, tensors=tensors), decoder_shape(file))
