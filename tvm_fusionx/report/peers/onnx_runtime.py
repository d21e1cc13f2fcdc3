"""ONNX Runtime on the CPU, with all its graph optimisations."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.report.peers import PreparedPeer
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.report.verify.reference import ERRORS_ONLY

# Operators that give their input another shape, or are no work at all.
MOVES_NOTHING = {"Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


def prepare(
    model: Path, inputs: Mapping[str, np.ndarray], threads: int, _: Conversions
) -> PreparedPeer:
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
        count_kernels=lambda: _count_kernels(model, options),
    )


def _count_kernels(model: Path, options: Any) -> int:
    """Return the nodes of the graph that ONNX Runtime optimised, which a session writes on load."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="fusionx-ort-") as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        nodes = onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node
    return sum(node.op_type not in MOVES_NOTHING for node in nodes)
