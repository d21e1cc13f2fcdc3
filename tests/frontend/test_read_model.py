from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.small_models import dynamic_model, model, value
from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.read_model import opset_of, read_model


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.onnx: expected an ONNX file; found no such file"):
        read_model(tmp_path / "gone.onnx")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="found a directory"):
        read_model(tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    content = dynamic_model().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelError, match=r"cut\.onnx.*again"):
        read_model(path)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is no model, although it is called one\n" * 9)
    with pytest.raises(ModelError, match="expected an ONNX model"):
        read_model(path)


def test_a_graph_with_a_missing_part() -> None:
    given = dynamic_model()
    del given.graph.node[0]
    with pytest.raises(ModelError, match=r"Add node 'shift'.*found 'r', which nothing makes"):
        read_model(given)
    given = dynamic_model()
    given.graph.output[0].name = "other"
    with pytest.raises(ModelError, match="output 'other', which nothing makes"):
        read_model(given)


def test_an_opset_of_the_future() -> None:
    given = dynamic_model()
    given.opset_import[0].version = 99
    with pytest.raises(ModelError, match="expected ONNX opset 28 or older; found opset 99"):
        read_model(given)


def test_another_type_of_argument() -> None:
    with pytest.raises(TypeError, match=r"path, bytes or an onnx\.ModelProto, not int"):
        read_model(3)


def test_external_data_is_read_from_beside_the_model(tmp_path: Path) -> None:
    weights = np.arange(2000, dtype="float32")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    given = model([node], [value("x", [2000])], ["y"], {"w": weights})
    path = tmp_path / "big.onnx"
    onnx.save(given, path, save_as_external_data=True, location="big.data", size_threshold=0)
    assert path.stat().st_size < weights.nbytes
    loaded = onnx.numpy_helper.to_array(read_model(path).graph.initializer[0])
    np.testing.assert_array_equal(loaded, weights)
    (tmp_path / "big.data").unlink()
    with pytest.raises(ModelError, match=r"external weights.*big\.data.*next to it"):
        read_model(path)


def test_the_opset_is_that_of_onnx_itself() -> None:
    given = dynamic_model()
    given.opset_import.append(helper.make_opsetid("com.example", 3))
    assert opset_of(given) == 17


def test_functions_of_the_model_are_written_out() -> None:
    body = helper.make_function(
        "com.example",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    node = helper.make_node("Twice", ["x"], ["y"], domain="com.example")
    given = model([node], [value("x", [2])], ["y"], domains=["com.example"])
    given.functions.append(body)
    assert [n.op_type for n in read_model(given).graph.node] == ["Add"]
