"""Whole models from GGUF files: the same logits as in numpy, whatever chunks the text comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.tiny_gpt2 import TINY_GPT2, gpt2_logits, write_tiny_gpt2
from tests.tiny_llama import Array, Tiny, logits_of, write_tiny
from tvm_fusionx.errors import InputError, ShapeError

TEXT = [3, 17, 5, 60, 8, 8, 2, 41, 33]
TOLERANCE = 1e-5
CACHE = 16


def run_chunks(path: Path, chunks: list[int], tiny: Tiny, **choices: Any) -> Array:
    """Return the logits of all tokens of TEXT, given in `chunks` one after the other."""
    logits, at = [], 0
    size = tiny.size
    keys = np.zeros((tiny.layers, tiny.groups, size, CACHE), "float32")
    values = np.zeros((tiny.layers, tiny.groups, CACHE, size), "float32")
    for count in chunks:
        mod, params = fx.from_gguf(path, tokens=count, cache=CACHE, all_logits=True)
        lib = fx.build(mod, "llvm -mcpu=native", params=params, **choices)
        model = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        model.set_input("tokens", np.asarray(TEXT[at : at + count], "int32"))
        model.set_input("position", np.asarray([at], "int32"))
        for layer in range(tiny.layers):
            model.set_input(f"keys_{layer}", keys[layer])
            model.set_input(f"values_{layer}", values[layer])
        model.run()
        found, *kept = (model.get_output(n).numpy() for n in range(1 + 2 * tiny.layers))
        logits.append(found)
        for layer in range(tiny.layers):
            keys[layer][..., at : at + count] = kept[2 * layer]
            values[layer][:, at : at + count] = kept[2 * layer + 1]
        at += count
    return np.concatenate(logits)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("Q4_1", "Q8_0"), ("Q4_0", "F16"), ("Q8_0", "Q4_1")], ids=str)
def test_logits_are_those_of_numpy(tmp_path: Path, kinds: tuple[str, str]) -> None:
    tiny = Tiny(layers=1, own_head=kinds[1] == "F16")
    path = tmp_path / "tiny.gguf"
    held = write_tiny(path, kinds, tiny)
    expected = logits_of(held, TEXT, tiny)
    found = run_chunks(path, [8, 1], tiny)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("Q4_1", "Q8_0"), ("F16", "F16")], ids=str)
def test_gpt2_has_the_logits_of_numpy(tmp_path: Path, kinds: tuple[str, str]) -> None:
    path = tmp_path / "tiny.gguf"
    expected = gpt2_logits(write_tiny_gpt2(path, kinds), TEXT)
    found = run_chunks(path, [8, 1], TINY_GPT2)
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize("name", ["tokens", "cache"])
def test_no_tokens_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path)
    with pytest.raises(ShapeError, match=f"{name}: expected a positive number; found 0"):
        fx.from_gguf(path, **{name: 0})


def test_other_activations_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_tiny(path)
    with pytest.raises(InputError, match="activations: expected 'float32' or 'int8'; found 'int4'"):
        fx.from_gguf(path, activations="int4")
