"""Hold another runtime to ONNX Runtime without optimisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.tiny_models import save
from tvm_fusionx.report.peers import PreparedPeer, prepare_peer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.verify.reference import run_onnxruntime

# Fast convolutions and narrower exponentials of the other runtimes; ours has its own tolerance.
PEER_TOLERANCE = 1e-3

# The others read the model as it is.
CONVERTED = ("mnn", "ncnn", "executorch", "litert")


def check_peer(name: str, model: onnx.ModelProto, folder: Path) -> PreparedPeer:
    """Prepare `model`, run it twice, and compare; return what was prepared."""
    generator = np.random.default_rng(3)
    inputs = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dimension.dim_value for dimension in tensor.shape.dim]
        if tensor.elem_type == onnx.TensorProto.FLOAT:
            inputs[value.name] = generator.standard_normal(shape).astype("float32")
        else:
            inputs[value.name] = generator.integers(0, 4, shape)
    conversions = Conversions(folder / "kept")
    # The second finds what was converted for the first, if anything was.
    for _ in range(2):
        prepared = prepare_peer(name, save(model, folder), inputs, 1, conversions)
    assert (conversions.spared_s > 0) == (name in CONVERTED)
    prepared.run()
    reference = run_onnxruntime(model.SerializeToString(), inputs)
    for ours, wanted in zip(prepared.outputs(prepared.run()), reference, strict=True):
        scale = np.abs(wanted).max()
        assert np.abs(ours.reshape(wanted.shape) - wanted).max() <= PEER_TOLERANCE * scale
    return prepared
