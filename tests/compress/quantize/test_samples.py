from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.errors import InputError


def _input(name: str, *dims: int | str, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, dims)


X = _input("x", 1, 3)
IDS = _input("ids", "N", 4, kind=TensorProto.INT64)


def test_arrays_of_a_model_with_one_input_need_no_name() -> None:
    rows = [np.full((1, 3), value, "float32") for value in (1, 2)]
    samples = Samples(rows, [X])
    assert len(samples) == 2
    assert [float(sample["x"][0, 0]) for sample in samples] == [1, 2]
    # Read anew at each pass.
    assert [float(sample["x"][0, 0]) for sample in samples] == [1, 2]


def test_a_file_is_cut_along_its_first_axis(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", x=np.arange(15, dtype="float32").reshape(5, 3))
    samples = list(Samples(tmp_path / "all.npz", [X]))
    assert [sample["x"].shape for sample in samples] == [(1, 3)] * 5
    assert samples[4]["x"][0, 2] == 14


def test_an_axis_more_is_that_of_the_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", ids=np.zeros((5, 2, 4), "int64"))
    assert [s["ids"].shape for s in Samples(tmp_path / "all.npz", [IDS])] == [(2, 4)] * 5


def test_a_batch_that_is_not_full_is_left_out(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", x=np.zeros((5, 3), "float32"))
    assert len(Samples(tmp_path / "all.npz", [_input("x", 2, 3)])) == 2


def test_a_folder_has_a_file_for_each_sample(tmp_path: Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full((1, 3), number, "float32"))
    (tmp_path / "notes.txt").write_text("no sample")
    assert [float(s["x"][0, 0]) for s in Samples(tmp_path, [X])] == [0, 1, 2]
    assert len(Samples(tmp_path, [X], limit=2)) == 2


def _array(value: Any = 0, shape: tuple[int, ...] = (1, 3), dtype: str = "float32") -> Any:
    return np.full(shape, value, dtype)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([], "at least one sample"),
        ([{"y": _array()}], "calibration input 'x'"),
        ([_array(dtype="float64")], "found float64 of [1, 3]"),
        ([_array(shape=(1, 4))], "found float32 of [1, 4]"),
        ([_array(), _array(np.nan)], "calibration sample 1, input 'x': expected finite numbers"),
    ],
)
def test_what_does_not_fit_is_told(source: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        list(Samples(source, [X]))
    assert words in str(caught.value)


def test_unequal_numbers_of_samples_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 3), "float32"), ids=np.zeros((4, 4), "int64"))
    with pytest.raises(InputError, match="expected 5 samples"):
        Samples(tmp_path / "a.npz", [X, IDS])


def test_a_model_of_two_inputs_needs_names() -> None:
    with pytest.raises(InputError, match="an array without a name"):
        Samples([_array()], [X, IDS])


def test_an_iterator_is_refused_for_it_ends() -> None:
    with pytest.raises(TypeError, match="give a list"):
        Samples(iter([_array()]), [X])


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"bad\.npy"):
        Samples(tmp_path, [X])


def test_a_negative_extent_is_open_as_exporters_mean_it() -> None:
    (sample,) = Samples([np.zeros((1, 3, 8), "float32")], [_input("x", -1, 3, "W")])
    assert sample["x"].shape == (1, 3, 8)
