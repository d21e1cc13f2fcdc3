"""Models as ONNX Runtime saves them after its own optimizations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

onnxruntime = pytest.importorskip("onnxruntime")

LEVELS = {
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}


def optimized(model: onnx.ModelProto, level: str, folder: Path) -> onnx.ModelProto:
    """Return `model` as ONNX Runtime saves it at a level."""
    path = folder / f"{level}.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = LEVELS[level]
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(path)


def operators(model: onnx.ModelProto) -> set[str]:
    """Return the operators of a model, each after its domain where that is not ONNX's."""
    names: set[Any] = {(node.domain, node.op_type) for node in model.graph.node}
    return {f"{domain}.{name}" if domain else name for domain, name in names}
