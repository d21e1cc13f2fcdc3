"""Weights in a file of their own: the same numbers, each once, aligned, and nothing damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import tvm_fusionx as fx
from tests.tiny_models import TARGET, perceptron
from tvm_fusionx.build import mapped_weights
from tvm_fusionx.build.library import Library, describe_library
from tvm_fusionx.build.mapped_weights import ALIGNMENT, save_weights, with_weights
from tvm_fusionx.errors import LibraryFileError
from tvm_fusionx.inputs import inputs_of, random_inputs


@pytest.fixture(scope="module", name="library")
def fixture_library() -> Library:
    mod, params = fx.from_onnx(perceptron())
    return describe_library(
        fx.build(mod, TARGET, params=params),
        model="perceptron",
        target=TARGET,
        inputs=inputs_of(mod, params),
    )


@pytest.fixture(autouse=True)
def _every_weight_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_weights, "LEAST_BYTES", 0)


def _result(executor: Any, arrays: dict[str, np.ndarray]) -> np.ndarray:
    executor.set_input(**arrays)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def test_programs_compute_the_same_with_mapped_weights(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    twice = [library, replace(library)]
    left = save_weights(twice, path)
    assert [*left[0].params] == []
    # Each array once, though two programs have it.
    held = sum(array.numpy().nbytes + ALIGNMENT for array in library.params.values())
    assert path.stat().st_size < held + 4096
    mapped = with_weights(left, path)
    arrays = random_inputs(library.inputs)
    expected = _result(library.executor(), arrays)
    for program in mapped:
        assert {*program.params} == {*library.params}
        found = _result(program.executor(shares_weights=True), arrays)
        np.testing.assert_array_equal(found, expected)
    for name, array in mapped[0].params.items():
        assert array.handle.contents.data % ALIGNMENT == 0
        assert array.handle.contents.data == mapped[1].params[name].handle.contents.data


def test_what_writes_to_a_weight_does_not_change_the_file(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    (mapped,) = with_weights(save_weights([library], path), path)
    before = path.read_bytes()
    name, array = next(iter(mapped.params.items()))
    array.copyfrom(np.zeros(array.shape, array.dtype))
    assert not array.numpy().any()
    assert path.read_bytes() == before
    (again,) = with_weights([library], path)
    np.testing.assert_array_equal(again.params[name].numpy(), library.params[name].numpy())


def test_odd_numbers_stay_in_the_library(library: Library, tmp_path: Path) -> None:
    name = next(iter(library.params))
    odd = replace(library, params={**library.params, name: tvm.nd.array(np.ones(3, "bool"))})
    (left,) = save_weights([odd], tmp_path / "weights")
    assert [*left.params] == [name]


def test_damage_is_told(library: Library, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    left = save_weights([library], path)
    whole = path.read_bytes()
    for place in (0, 20, 41, 60, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(LibraryFileError, match="what was written"):
            with_weights(left, path)
    for count in (0, 12, 45, 300):
        path.write_bytes(whole[:count])
        with pytest.raises(LibraryFileError, match="Remove it"):
            with_weights(left, path)
    path.write_bytes(whole)
    with pytest.raises(LibraryFileError, match="weights of 2 programs; found 1"):
        with_weights([*left, *left], path)
    path.unlink()
    with pytest.raises(LibraryFileError, match="a file of weights"):
        with_weights(left, path)
