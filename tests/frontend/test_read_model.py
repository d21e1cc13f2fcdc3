from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import dynamic_model, model, value
from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.read_model import opset_of, opsets_of, read_model


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


def test_versions_that_nobody_has() -> None:
    given = dynamic_model()
    given.ir_version = 99
    with pytest.raises(ModelError, match="IR version 14 or older; found IR version 99"):
        read_model(given)
    given = dynamic_model()
    given.opset_import[0].version = 0
    with pytest.raises(ModelError, match="found opset 0"):
        read_model(given)


def test_an_opset_newer_than_the_package_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 15)
    with pytest.raises(ModelError, match=r"opset 15 or older.*Update the onnx package"):
        read_model(dynamic_model())


def test_of_several_opsets_the_newest_counts() -> None:
    given = dynamic_model()
    given.opset_import.append(helper.make_opsetid("ai.onnx", 18))
    given.opset_import.append(helper.make_opsetid("com.example", 3))
    assert opsets_of(given) == {"": 18, "com.example": 3}


@pytest.mark.parametrize("ir_version", [3, 8, 13])
def test_weights_may_be_inputs_or_not_in_any_ir_version(ir_version: int) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    given = model([node], [value("x", [2]), value("w", [2])], ["y"], {"w": np.ones(2, "float32")})
    given.ir_version = ir_version
    assert [p.name_hint for p in from_onnx(given)[0]["main"].params] == ["x"]
    del given.graph.input[1]
    assert [p.name_hint for p in from_onnx(given)[0]["main"].params] == ["x"]


def test_names_that_are_no_text() -> None:
    content = dynamic_model().SerializeToString().replace(b"rectify", b"re\xff\xfeify")
    with pytest.raises(ModelError, match=r"names in UTF-8|do not parse"):
        read_model(content)


def test_functions_of_another_opset_keep_theirs() -> None:
    # Before opset 13 Softmax flattens its input, as since then it does not.
    body = helper.make_function(
        "com.example",
        "Old",
        ["a"],
        ["b"],
        [helper.make_node("Softmax", ["a"], ["b"], axis=1)],
        [helper.make_opsetid("", 11)],
    )
    node = helper.make_node("Old", ["x"], ["y"], domain="com.example")
    given = model([node], [value("x", [2, 3, 4])], ["y"], domains=["com.example"])
    given.functions.append(body)
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    powers = np.exp(x - x.max((1, 2), keepdims=True))
    np.testing.assert_allclose(
        run(given, {"x": x})[0], powers / powers.sum((1, 2), keepdims=True), rtol=1e-5
    )


def test_functions_that_call_themselves_are_refused() -> None:
    body = helper.make_function(
        "com.example",
        "Again",
        ["a"],
        ["b"],
        [helper.make_node("Again", ["a"], ["b"], domain="com.example")],
        [helper.make_opsetid("", 11), helper.make_opsetid("com.example", 1)],
    )
    node = helper.make_node("Again", ["x"], ["y"], domain="com.example")
    given = model([node], [value("x", [2])], ["y"], domains=["com.example"])
    given.functions.append(body)
    with pytest.raises(ModelError, match=r"call themselves|written out"):
        from_onnx(given)
