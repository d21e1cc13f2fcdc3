from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.small_models import model, value
from tvm_fusionx.errors import ModelError, UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.tensors import (
    array_of,
    bits_of,
    check_external_data,
    external_files,
    stored_bytes,
)

WEIGHTS = np.arange(6, dtype="float32").reshape(2, 3)


def _stored(tmp_path: Path) -> Path:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    given = model([node], [value("x", [2, 3])], ["y"], {"w": WEIGHTS})
    path = tmp_path / "m.onnx"
    onnx.save(given, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    return path


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_numbers_are_read(dtype: str) -> None:
    array = WEIGHTS.astype(dtype)
    found = array_of(numpy_helper.from_array(array), "w")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_narrow_numbers_are_unpacked_into_bytes() -> None:
    tensor = helper.make_tensor("w", TensorProto.INT4, [3], [-8, 7, 1])
    assert (bits_of(TensorProto.INT4), stored_bytes(tensor)) == (4, 2)
    found = array_of(tensor, "w")
    assert found.dtype == np.int8
    assert found.tolist() == [-8, 7, 1]
    assert bits_of(TensorProto.UINT2) == 2
    assert bits_of(TensorProto.FLOAT16) == 16


def test_bfloat16_of_bytes_and_of_integers() -> None:
    listed = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.5, -2.0])
    bits = np.array([0x3FC0, 0xC000], "uint16")
    assert list(listed.int32_data) == bits.tolist()
    raw = helper.make_tensor("w", TensorProto.BFLOAT16, [2], bits.tobytes(), raw=True)
    for tensor in (listed, raw):
        found = array_of(tensor, "w")
        assert found.dtype == "bfloat16"
        assert found.astype("float32").tolist() == [1.5, -2.0]


def test_damaged_tensors_are_refused_by_name() -> None:
    tensor = numpy_helper.from_array(WEIGHTS, "w")
    tensor.dims[0] = 3
    with pytest.raises(ModelError, match=r"w: expected 36 bytes for shape \[3, 3\]; found 24"):
        array_of(tensor, "w")
    tensor.dims[0] = -2
    with pytest.raises(ModelError, match="dimensions that are not negative"):
        array_of(tensor, "w")
    listed = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    listed.float_data.append(3.0)
    with pytest.raises(ModelError, match=r"elements of FLOAT for shape \[2\]"):
        array_of(listed, "w")
    with pytest.raises(UnsupportedOperatorError, match="STRING"):
        array_of(helper.make_tensor("w", TensorProto.STRING, [1], [b"a"]), "w")


def test_external_data_that_was_not_loaded(tmp_path: Path) -> None:
    loaded = onnx.load(_stored(tmp_path), load_external_data=False)
    with pytest.raises(ModelError, match=r"initializer 'w'.*a reference to another file"):
        from_onnx(loaded)


def test_files_of_weights_are_named_once(tmp_path: Path) -> None:
    stored = onnx.load(_stored(tmp_path), load_external_data=False)
    stored.graph.initializer.append(stored.graph.initializer[0])
    assert external_files(stored) == ("m.bin",)
    assert external_files(onnx.load(tmp_path / "m.onnx")) == ()


@pytest.mark.parametrize("size", [0, 10, 23])
def test_a_truncated_file_of_weights(tmp_path: Path, size: int) -> None:
    path = _stored(tmp_path)
    os.truncate(tmp_path / "m.bin", size)
    match = rf"'w' of .*m\.onnx: expected 24 bytes in m\.bin from byte 0; found {size} of"
    with pytest.raises(ModelError, match=match):
        from_onnx(path)


def test_weights_of_another_shape_than_their_bytes(tmp_path: Path) -> None:
    given = onnx.load(_stored(tmp_path), load_external_data=False)
    check_external_data(given, tmp_path, "m")
    given.graph.initializer[0].dims[0] = 1
    with pytest.raises(ModelError, match="expected 12 bytes"):
        check_external_data(given, tmp_path, "m")
    entry = next(e for e in given.graph.initializer[0].external_data if e.key == "length")
    entry.value = "many"
    with pytest.raises(ModelError, match="expected 12 bytes"):
        check_external_data(given, tmp_path, "m")


def test_weights_within_nodes_and_subgraphs_are_looked_at(tmp_path: Path) -> None:
    given = onnx.load(_stored(tmp_path), load_external_data=False)
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(WEIGHTS, "c"))
    constant.attribute[0].t.CopyFrom(given.graph.initializer[0])
    inner = helper.make_graph([constant], "inner", [], [helper.make_empty_tensor_value_info("c")])
    del given.graph.initializer[:]
    given.graph.node.append(
        helper.make_node("If", ["f"], ["z"], then_branch=inner, else_branch=inner)
    )
    (tmp_path / "m.bin").unlink()
    with pytest.raises(ModelError, match=r"no file 'm\.bin', which holds 'w'"):
        check_external_data(given, tmp_path, "m")
