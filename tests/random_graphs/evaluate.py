"""What ONNX Runtime computes, without its graph optimisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

Array = npt.NDArray[Any]

# The first IR version that knows initializers which are not inputs is 4; 8 goes with opset 18.
IR_VERSION = 8
_SEVERITY_FATAL = 4


class RejectedError(Exception):
    """A drawn node that the checker or the runtime refuses, or whose numbers are not tame."""


def run_model(
    model: onnx.ModelProto, inputs: Mapping[str, Array], outputs: Sequence[str] | None = None
) -> list[Array]:
    """Run a model in ONNX Runtime on one thread, each node as written.

    Parameters
    ----------
    model
        A valid model.
    inputs
        One array for every graph input.
    outputs
        Names to fetch; default all graph outputs.

    Raises
    ------
    RejectedError
        If ONNX Runtime has no kernel for a node or fails to run it.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = _SEVERITY_FATAL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(outputs, dict(inputs))
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        raise RejectedError(str(error)) from error
    return [np.asarray(value) for value in found]


def value_info(name: str, array: Array) -> onnx.ValueInfoProto:
    """Return the static type of a value."""
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, list(array.shape))


def single_node_model(
    node: onnx.NodeProto, arrays: Mapping[str, Array], opset: int
) -> onnx.ModelProto:
    """Return a model of one node, every operand a graph input."""
    operands = [name for name in dict.fromkeys(node.input) if name]
    graph = onnx.helper.make_graph(
        [node],
        "one_node",
        [value_info(name, arrays[name]) for name in operands],
        [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name],
    )
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=IR_VERSION
    )
