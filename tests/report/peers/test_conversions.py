from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.tiny_models import perceptron, save
from tvm_fusionx.report.peers.conversions import Conversions, onnx_sources, shape_sources


class Converter:
    """Writes its name into a file, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "converted").write_text("done")


def test_without_a_folder_nothing_is_kept() -> None:
    converter, conversions = Converter(), Conversions()
    for _ in range(2):
        with conversions.made("a", ["x"], converter) as folder:
            assert (folder / "converted").read_text() == "done"
        assert not folder.exists()
    assert converter.calls == 2
    assert conversions.spared_s == 0


def test_what_was_made_is_found_by_another_process_with_its_seconds(tmp_path: Path) -> None:
    converter, root = Converter(), tmp_path / "not" / "yet"
    with Conversions(root).made("a", ["x"], converter) as folder:
        pass
    assert (folder / "converted").is_file()
    later = Conversions(root)
    with later.made("a", ["x"], converter) as again:
        assert again == folder
    assert converter.calls == 1
    assert later.spared_s == float((folder / "seconds.txt").read_text())


def test_another_runtime_text_or_content_is_converted_again(tmp_path: Path) -> None:
    model, same = tmp_path / "model", tmp_path / "same"
    model.write_bytes(b"1")
    same.write_bytes(b"1")
    converter, conversions = Converter(), Conversions(tmp_path / "kept")
    for expected, runtime, sources in (
        (1, "a", [model, "v1"]),
        (1, "a", [same, "v1"]),
        (2, "b", [model, "v1"]),
        (3, "a", [model, "v2"]),
        (4, "a", [model, "v", "1"]),
    ):
        with conversions.made(runtime, sources, converter):
            assert converter.calls == expected
    model.write_bytes(b"2")
    with conversions.made("a", [model, "v1"], converter):
        assert converter.calls == 5


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError("no")

    conversions, converter = Conversions(tmp_path), Converter()
    with pytest.raises(RuntimeError, match="no"), conversions.made("a", ["x"], fail):
        pass
    assert list(tmp_path.iterdir()) == []
    with conversions.made("a", ["x"], converter):
        assert converter.calls == 1


def test_weights_beside_a_model_are_sources(tmp_path: Path) -> None:
    inside = save(perceptron(), tmp_path, "inside.onnx")
    assert onnx_sources(inside) == [inside]
    beside = tmp_path / "beside.onnx"
    onnx.save(
        perceptron(),
        str(beside),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    assert onnx_sources(beside) == [beside, tmp_path / "weights.bin"]


def _outside(name: str) -> onnx.TensorProto:
    """Return a tensor whose numbers are in the file `name`."""
    tensor = onnx.numpy_helper.from_array(np.ones(4, "float32"), name)
    onnx.external_data_helper.set_external_data(tensor, name)
    return tensor


def _constant(name: str) -> onnx.NodeProto:
    return onnx.helper.make_node("Constant", [], [name], value=_outside(name))


def _branch(name: str) -> onnx.GraphProto:
    output = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4])
    return onnx.helper.make_graph([_constant(name)], name, [], [output])


def test_weights_beside_a_model_are_sources_wherever_they_are_held(tmp_path: Path) -> None:
    model = perceptron()
    chosen = onnx.helper.make_node(
        "If", ["is"], ["chosen"], then_branch=_branch("then.bin"), else_branch=_branch("else.bin")
    )
    model.graph.node.extend([_constant("attribute.bin"), chosen])
    model.graph.initializer.append(_outside("weight.bin"))
    function = model.functions.add(name="f", domain="own")
    function.node.append(_constant("function.bin"))
    files = ["attribute.bin", "else.bin", "function.bin", "then.bin", "weight.bin"]
    for name in files:
        (tmp_path / name).write_bytes(np.ones(4, "float32").tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    assert onnx_sources(path) == [path, *(tmp_path / name for name in files)]
    converter, conversions = Converter(), Conversions(tmp_path / "kept")
    for calls, name in enumerate(files, start=1):
        (tmp_path / name).write_bytes(np.zeros(4, "float32").tobytes())
        with conversions.made("a", onnx_sources(path), converter):
            assert converter.calls == calls


def test_shapes_and_dtypes_tell_inputs_apart() -> None:
    sources = [
        shape_sources({"x": np.zeros((1, 2), dtype)}) + shape_sources({"y": np.zeros(shape)})
        for dtype in ("float32", "int64")
        for shape in (2, 3)
    ]
    assert len({tuple(parts) for parts in sources}) == 4
