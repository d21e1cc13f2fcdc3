"""ONNX Runtime on the CPU, with all its graph optimisations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.reference import ERRORS_ONLY


def prepare(model: Path, inputs: Mapping[str, np.ndarray], threads: int) -> PreparedPeer:
    """Return a session on `model`, one operator after the other, `threads` threads in each."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = {node.name for node in session.get_inputs()}
    fed = {name: value for name, value in inputs.items() if name in names}
    return PreparedPeer(
        name="ort",
        version=onnxruntime.__version__,
        run=lambda: session.run(None, fed),
        outputs=list,
    )
