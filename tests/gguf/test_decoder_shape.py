"""Sizes from a file's keys; what is not translated is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tiny_gpt2 import write_tiny_gpt2
from tests.tiny_llama import BASE, EPSILON, Tiny, write_tiny
from tvm_fusionx.errors import ModelError
from tvm_fusionx.gguf.decoder_shape import DecoderShape, decoder_shape
from tvm_fusionx.gguf.read import read_gguf


def _shape(path: Path, **changed: Any) -> DecoderShape:
    write_tiny(path)
    file = read_gguf(path)
    return decoder_shape(replace(file, metadata={**file.metadata, **changed}))


def test_sizes(tmp_path: Path) -> None:
    shape, tiny = _shape(tmp_path / "tiny.gguf"), Tiny()
    found = (shape.layers, shape.features, shape.inner, shape.heads, shape.groups)
    assert found == (tiny.layers, tiny.features, tiny.inner, tiny.heads, tiny.groups)
    assert (shape.vocabulary, shape.context, shape.head_features) == (80, 64, 16)
    np.testing.assert_allclose(shape.frequencies, BASE ** -(np.arange(0, 16, 2) / 16))


def test_linear_scaling_slows_every_angle(tmp_path: Path) -> None:
    plain = _shape(tmp_path / "tiny.gguf")
    scaled = _shape(
        tmp_path / "tiny.gguf",
        **{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
    )
    np.testing.assert_allclose(np.asarray(scaled.frequencies) * 4, plain.frequencies)


def test_places_of_gpt2_are_rows_of_a_table(tmp_path: Path) -> None:
    write_tiny_gpt2(tmp_path / "tiny.gguf")
    shape = decoder_shape(read_gguf(tmp_path / "tiny.gguf"))
    assert shape.frequencies == ()
    assert shape.epsilon == pytest.approx(EPSILON)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", "mamba"),
        ("llama.expert_count", 8),
        ("llama.attention.head_count_kv", 3),
        ("llama.rope.dimension_count", 8),
        ("llama.rope.scaling.type", "yarn"),
        ("llama.block_count", 0),
        ("llama.embedding_length", "many"),
    ],
)
def test_what_is_not_translated_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ModelError, match=rf"key '{key}': expected .*; found .*{value}"):
        _shape(tmp_path / "tiny.gguf", **{key: value})
