from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.errors import InputError
from tvm_fusionx.inputs import (
    InputSpec,
    check_inputs,
    fill_inputs,
    inputs_of,
    random_inputs,
    read_inputs,
    write_arrays,
)

SPECS = (InputSpec("x", (2, 3), "float32"), InputSpec("ids", (4,), "int64"))


def _good() -> dict[str, np.ndarray]:
    return {"ids": np.zeros(4, "int64"), "x": np.ones((2, 3), "float32")}


def test_inputs_come_back_in_the_models_order() -> None:
    assert list(check_inputs(_good(), SPECS)) == ["x", "ids"]


@pytest.mark.parametrize(
    ("change", "named", "expected", "found"),
    [
        ({"y": np.zeros(1)}, "'y'", "x:[2,3] float32", "'y'"),
        ({"x": np.zeros((3, 2), "float32")}, "'x'", "(2, 3)", "(3, 2)"),
        ({"x": np.zeros((2, 3), "float64")}, "'x'", "float32", "float64"),
    ],
    ids=["name", "shape", "dtype"],
)
def test_a_wrong_input_is_named_with_what_was_expected_and_found(
    change: dict[str, np.ndarray], named: str, expected: str, found: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_inputs({**_good(), **change}, SPECS)
    assert named in caught.value.thing
    assert expected in caught.value.expected
    assert found in caught.value.found
    assert caught.value.next_step


def test_a_missing_input_is_named() -> None:
    with pytest.raises(InputError, match="missing: 'ids'"):
        check_inputs({"x": _good()["x"]}, SPECS)


def test_random_inputs_fit_and_are_the_same_every_time() -> None:
    specs = (*SPECS, InputSpec("attention_mask", (1, 4), "int64"), InputSpec("b", (9,), "bool"))
    first, second = random_inputs(specs), random_inputs(specs)
    assert list(check_inputs(first, specs)) == [spec.name for spec in specs]
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert not np.array_equal(first["x"], random_inputs(specs, seed=1)["x"])
    assert set(np.unique(first["ids"])) <= {0, 1}
    assert first["attention_mask"].all()


def test_inputs_of_a_module_leave_out_its_parameters() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3), dtype="float32")
    mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
    mod = relay.transform.InferType()(mod)
    assert [spec.name for spec in inputs_of(mod)] == ["x", "w"]
    assert inputs_of(mod, {"w": None}) == (InputSpec("x", (2, 3), "float32"),)


def test_a_file_of_arrays_is_read(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **_good())
    assert np.array_equal(read_inputs(path)["x"], _good()["x"])


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 but then nothing", b"text"], ids=str)
def test_a_file_that_is_not_npz_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "in.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"in\.npz"):
        read_inputs(path)


def test_pickled_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.array([{"code": "run"}], dtype=object))
    with pytest.raises(InputError, match="Python objects, which are not read"):
        read_inputs(path)


def test_a_single_array_has_no_name(tmp_path: Path) -> None:
    path = tmp_path / "in.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(InputError, match="without a name"):
        read_inputs(path)


def test_only_what_is_not_given_is_filled() -> None:
    given = {"x": np.full((2, 3), 7.0, "float32")}
    ones = fill_inputs(given, SPECS, "ones")
    np.testing.assert_array_equal(ones["x"], given["x"])
    np.testing.assert_array_equal(ones["ids"], np.ones(4, "int64"))
    zeros = fill_inputs({}, SPECS, "zeros")
    assert not zeros["x"].any()
    assert zeros["x"].dtype == "float32"
    drawn = random_inputs(SPECS)
    np.testing.assert_array_equal(fill_inputs({}, SPECS, "random")["x"], drawn["x"])


def test_arrays_are_written_whatever_they_are_called(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    arrays = {name: np.full(3, place) for place, name in enumerate(("file", "self", "a/b c", "ü"))}
    write_arrays(path, arrays)
    found = read_inputs(path)
    assert list(found) == list(arrays)
    assert all(np.array_equal(found[name], value) for name, value in arrays.items())
