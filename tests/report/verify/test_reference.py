from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.tiny_models import FEATURES, ROWS, TARGET, lookup, perceptron, save
from tvm_fusionx.errors import InputError, MissingDependencyError
from tvm_fusionx.report.verify.reference import reference_outputs, run_onnxruntime

INPUTS = {"x": np.linspace(-1, 1, ROWS * FEATURES, dtype="float32").reshape(ROWS, FEATURES)}


def _twice() -> tvm.IRModule:
    x = relay.var("x", shape=(ROWS, FEATURES))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.add(x, x))))


@pytest.mark.parametrize(
    ("reference", "who"),
    [
        (None, "TVM at level 0"),
        ([2 * INPUTS["x"]], "the given arrays"),
        ({"y": 2 * INPUTS["x"]}, "the given arrays"),
        (lambda inputs: [2 * inputs["x"]], "the given function"),
        (lambda inputs: {"y": 2 * inputs["x"]}, "the given function"),
    ],
    ids=["tvm", "list", "dictionary", "function", "function to dictionary"],
)
def test_each_kind_of_reference_gives_its_outputs_and_its_name(reference: object, who: str) -> None:
    found = reference_outputs(reference, _twice(), {}, INPUTS, TARGET)
    assert found.name == who
    assert np.array_equal(found.outputs[0], 2 * INPUTS["x"])


def test_an_onnx_file_and_a_model_in_memory_go_to_onnx_runtime(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = perceptron()
    path = save(model, tmp_path)
    for reference in (path, str(path), model):
        found = reference_outputs(reference, _twice(), {}, INPUTS, TARGET)
        assert found.name == "ONNX Runtime"
        np.testing.assert_allclose(found.outputs[0].sum(axis=1), np.ones(ROWS), rtol=1e-6)


def test_outputs_keep_the_models_order() -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"ids": np.array([0, 2, 4]), "scale": np.ones((3, 6), "float32")}
    scaled, flat = run_onnxruntime(lookup().SerializeToString(), inputs)
    assert (scaled.shape, flat.shape) == ((3, 6), (18,))


def test_a_broken_model_is_said_in_one_line(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match="ONNX Runtime"):
        run_onnxruntime(str(path), INPUTS)


def test_without_onnx_runtime_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match=r"\.\[peers\]"):
        run_onnxruntime("model.onnx", INPUTS)
