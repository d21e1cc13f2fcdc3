"""TVM 0.19's ONNX importer, one node at a time, with any version of onnx.

It reads ``onnx.mapping``, which onnx has not had since 1.19.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import tvm

NAME = "onnx.mapping"

_lock = threading.Lock()
_depth = 0


def _make_module() -> ModuleType:
    """Return a module with the one table that the importer reads: element types to NumPy's."""
    from onnx import TensorProto, helper

    module = ModuleType(NAME, "Supplied by tvm_fusionx for TVM 0.19's importer.")
    plain = {
        element: np.dtype(helper.tensor_dtype_to_np_dtype(element))
        for element in helper.get_all_tensor_dtypes()
    }
    # As onnx 1.18 had it: what NumPy lacks stands as a type that holds its numbers.
    plain[TensorProto.BFLOAT16] = np.dtype("float32")
    module.TENSOR_TYPE_TO_NP_TYPE = plain  # type: ignore[attr-defined]
    return module


def _is_onnx_own() -> bool:
    try:
        return importlib.util.find_spec(NAME) is not None
    except ValueError:  # a module in `sys.modules` without a spec: ours
        return False


@contextlib.contextmanager
def onnx_mapping() -> Iterator[None]:
    """Let ``onnx.mapping`` be importable in this scope; undone at the end where it was not before.

    Scopes nest, from any thread.
    """
    global _depth
    with _lock:
        if _depth == 0 and not _is_onnx_own():
            sys.modules[NAME] = _make_module()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            supplied = sys.modules.get(NAME)
            if _depth == 0 and supplied is not None and supplied.__spec__ is None:
                del sys.modules[NAME]


def convert_onnx_node(proto: Any, inputs: list[Any], opset: int) -> list[Any]:
    """Convert one ONNX node with the converter that TVM's importer has for it.

    The importer has no public entrance for less than a model, and looks operators up by name
    without their domain. Its converters infer types over everything upstream of `inputs`: give them
    variables.
    """
    from tvm.relay.frontend import onnx as importer

    graph = importer.GraphProto({}, None)
    attributes = graph._parse_attr(proto.attribute)
    attributes["tvm_custom"] = {"name": proto.name, "num_outputs": len(proto.output)}
    convert = importer._get_convert_map(opset)[proto.op_type]
    with onnx_mapping():
        result = convert(importer.onnx_input(inputs), attributes, {})
    if isinstance(result, tvm.relay.expr.TupleWrapper):
        return list(result)
    return [result]
