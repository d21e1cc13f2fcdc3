"""ONNX models written out by hand for the front end's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name: str, shape: Sequence[int | str | None] | None, element: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a model whose outputs have no declared types."""
    initializers = [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "small",
        list(inputs),
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def dynamic_model() -> onnx.ModelProto:
    """Return y = relu(x) + bias with open dimensions in both inputs."""
    return model(
        [
            helper.make_node("Relu", ["x"], ["r"], name="rectify"),
            helper.make_node("Add", ["r", "bias"], ["y"], name="shift"),
        ],
        [value("x", ["batch", 3, None]), value("bias", ["length"])],
        ["y"],
    )


def calls(mod: Any) -> list[Any]:
    """Return every operator call of ``main``, operands first."""
    found: list[Any] = []
    tvm.relay.analysis.post_order_visit(
        mod["main"], lambda e: found.append(e) if isinstance(e, tvm.relay.Call) else None
    )
    return found


def operator_names(mod: Any) -> list[str]:
    return [call.op.name for call in calls(mod)]
