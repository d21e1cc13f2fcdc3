"""OpenVINO on the CPU, tuned for latency."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer


def prepare(model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> PreparedPeer:
    """Return an inference request on `model` in float32, its shapes fixed to those of `inputs`."""
    import openvino

    core = openvino.Core()
    network = core.read_model(str(model))
    network.reshape(
        {
            port.any_name: list(inputs[port.any_name].shape)
            for port in network.inputs
            if port.any_name in inputs
        }
    )
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(network, "CPU", settings).create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(value)))

    def outputs(_: object) -> list[np.ndarray]:
        return [
            np.array(request.get_output_tensor(index).data) for index in range(len(network.outputs))
        ]

    return PreparedPeer(
        name="openvino",
        version=openvino.__version__.split("-")[0],
        run=request.infer,
        outputs=outputs,
    )
