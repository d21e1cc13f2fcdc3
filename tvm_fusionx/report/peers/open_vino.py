"""OpenVINO on the CPU, tuned for latency."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions

# Layers that give their input another shape, or only mark where data enters and leaves.
MOVES_NOTHING = {"Const", "Input", "Output", "Reshape"}


def prepare(
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    _: Conversions,
    more: Mapping[str, Any] | None = None,
) -> PreparedPeer:
    """Return an inference request on `model` in float32, its shapes fixed to those of `inputs`.

    Properties of `more` are set besides.
    """
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
        **(more or {}),
    }
    compiled = core.compile_model(network, "CPU", settings)
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(np.asarray(value, order="C")))

    def outputs(_: object) -> list[np.ndarray]:
        return [
            np.array(request.get_output_tensor(index).data) for index in range(len(network.outputs))
        ]

    def run() -> Any:
        # By default every run copies its outputs: 4 to 8 ms of GPT-2's logits.
        return request.infer(share_outputs=True)

    return PreparedPeer(
        name="openvino",
        version=openvino.__version__.split("-")[0],
        run=run,
        outputs=outputs,
        count_kernels=lambda: _count_kernels(compiled),
    )


def _count_kernels(compiled: Any) -> int:
    """Return the layers executed in a run; those of constants alone ran at compile time."""
    nodes = compiled.get_runtime_model().get_ordered_ops()
    kinds = {node.get_friendly_name(): _kind(node) for node in nodes}
    constants = {name for name, kind in kinds.items() if kind == "Const"}
    count = 0
    for node in nodes:
        name = node.get_friendly_name()
        sources = {value.get_node().get_friendly_name() for value in node.input_values()}
        if sources and sources <= constants:
            constants.add(name)
        elif kinds[name] not in MOVES_NOTHING:
            count += 1
    return count


def _kind(node: Any) -> str:
    kind = node.get_rt_info()["layerType"]
    return str(kind.astype(str)) if hasattr(kind, "astype") else str(kind)
