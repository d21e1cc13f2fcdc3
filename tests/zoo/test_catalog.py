"""The catalogue: every name has inputs, packaged models come out as they are, errors are typed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvm_fusionx import zoo
from tvm_fusionx.errors import MissingDependencyError, ModelError, OutputFileError, ShapeError
from tvm_fusionx.zoo import catalog, packages
from tvm_fusionx.zoo.recipe import Recipe

PACKAGED = ("ppocr-det", "ppocr-rec", "ppocr-cls")


def test_names_of_the_zoo():
    assert set(PACKAGED) < set(zoo.names())
    assert {"minilm", "bert-base", "gpt2", "mobilebert", "resnet18", "mobilenet-v1"} < set(
        zoo.names()
    )


def test_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ModelError, match="fusionx zoo list"):
        zoo.export("no-such-model", tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="fusionx zoo list"):
        zoo.sample_inputs("no-such-model")


def test_an_export_that_ends_early_leaves_the_older_file(tmp_path, monkeypatch):
    def ends_early(inputs, path, exporter):
        path.write_bytes(b"half a mod")
        raise OSError("no space left")

    recipe = Recipe("half a model", lambda: {"x": np.zeros(1, "float32")}, ends_early)
    monkeypatch.setitem(catalog.RECIPES, "half", recipe)
    path = tmp_path / "half.onnx"
    path.write_bytes(b"a model")
    with pytest.raises(OutputFileError, match="no space left"):
        zoo.export("half", path)
    assert path.read_bytes() == b"a model"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", zoo.names())
def test_sample_inputs_are_repeatable(name):
    try:
        first, second = zoo.sample_inputs(name), zoo.sample_inputs(name)
    except MissingDependencyError as error:
        pytest.skip(str(error))
    assert first
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
        assert value.flags.c_contiguous
        assert value.any()


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_models_run(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    try:
        exported = zoo.export(name, tmp_path / "model.onnx")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    inputs = zoo.sample_inputs(exported)
    assert {key: value.shape for key, value in inputs.items()} == exported.shapes
    assert {key: str(value.dtype) for key, value in inputs.items()} == exported.dtypes
    onnx.checker.check_model(str(exported.path))
    outputs = onnxruntime.InferenceSession(str(exported.path)).run(None, inputs)
    assert all(np.isfinite(output).all() for output in outputs)


def test_recognition_reads_the_drawn_line(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    try:
        exported = zoo.export("ppocr-rec", tmp_path / "model.onnx")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    (scores,) = onnxruntime.InferenceSession(str(exported.path)).run(
        None, zoo.sample_inputs(exported)
    )
    metadata = {entry.key: entry.value for entry in onnx.load(exported.path).metadata_props}
    # CTC: class 0 is "no character", repeats collapse.
    characters = ["", *metadata["character"].splitlines(), " "]
    best = scores[0].argmax(axis=-1)
    text = "".join(
        characters[index] for step, index in enumerate(best) if step == 0 or index != best[step - 1]
    )
    assert text == "tensor compiler"


def test_model_whose_package_is_missing_says_so(tmp_path, monkeypatch):
    def find_nothing(distribution):
        raise packages.metadata.PackageNotFoundError(distribution)

    pytest.importorskip("PIL")
    monkeypatch.setattr(packages.metadata, "files", find_nothing)
    with pytest.raises(MissingDependencyError, match="rapidocr-onnxruntime"):
        zoo.export("ppocr-det", tmp_path / "model.onnx")


def small_model(*dims):
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, dims),
        helper.make_tensor_value_info("i", TensorProto.INT64, [3]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_model(helper.make_graph([node], "small", inputs, [output]))


def test_random_inputs_fit_the_model():
    inputs = zoo.random_inputs(small_model(4, 5))
    assert inputs["x"].shape == (4, 5)
    assert inputs["x"].dtype == np.float32
    assert inputs["i"].dtype == np.int64
    assert set(inputs["i"]) <= {0, 1}


def test_random_inputs_need_every_dimension():
    with pytest.raises(ShapeError, match="batch"):
        zoo.random_inputs(small_model("batch", 5))
    assert zoo.random_inputs(small_model("batch", 5), shape={"x": (2, 5)})["x"].shape == (2, 5)
