"""Both of torch's exporters write files that onnx accepts and that compute the same."""

from __future__ import annotations

import importlib.util

import numpy as np
import onnx
import pytest

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo.torch_export import OPSETS, call_with_names, export_module

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
onnxruntime = pytest.importorskip("onnxruntime")

NAMES = ("input_ids", "attention_mask")


@pytest.mark.slow
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_small_bert_agrees_with_torch(exporter, tmp_path):
    if exporter == "dynamo":
        pytest.importorskip("onnxscript")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    ids = np.arange(8, dtype=np.int64)[None]
    mask = (ids < 6).astype(np.int64)
    path = tmp_path / "bert.onnx"
    export_module(
        lambda: call_with_names(model, NAMES, "last_hidden_state"),
        (ids, mask),
        path,
        NAMES,
        ("last_hidden_state",),
        exporter,
    )
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == OPSETS[exporter]
    (found,) = onnxruntime.InferenceSession(str(path)).run(
        None, dict(zip(NAMES, (ids, mask), strict=True))
    )
    with torch.no_grad():
        expected = model(torch.from_numpy(ids), torch.from_numpy(mask)).last_hidden_state.numpy()
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is not None,
    reason="triton is installed, whose LLVM ends a process that has loaded TVM's",
)
def test_a_program_computes_what_the_module_computes(tmp_path):
    module = torch.nn.Linear(3, 2).eval()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    path = tmp_path / "linear.pt2"
    export_module(lambda: module, (value,), path, ("x",), ("y",), "program")
    with torch.no_grad():
        found = torch.export.load(str(path)).module()(torch.from_numpy(value))
        assert torch.equal(found, module(torch.from_numpy(value)))


def test_triton_and_tvm_are_kept_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "triton" or None)
    module = torch.nn.Linear(3, 2).eval()
    with pytest.raises(ModelError, match="pip uninstall triton"):
        export_module(lambda: module, (), tmp_path / "linear.pt2", ("x",), ("y",), "program")
