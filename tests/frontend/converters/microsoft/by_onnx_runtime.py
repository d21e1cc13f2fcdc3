"""Check operators that ONNX Runtime defines against ONNX Runtime, many calls in one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.frontend.onnx_nodes import run
from tvm_fusionx.frontend import from_onnx

onnxruntime = pytest.importorskip("onnxruntime")

OPSET = 21
# Reassociating float32 laws, relative to the largest output.
TOLERANCE = 1e-5
# One unit in the last place of a half.
HALF_TOLERANCE = 2e-3
DOMAINS = ("com.microsoft", "com.microsoft.nchwc")


@dataclass(frozen=True)
class Call:
    """One call of an operator, with its inputs."""

    op_type: str
    inputs: Sequence[Any]
    """Arrays; tensors of ONNX where NumPy has no such type; None where one is left out."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[int] = ()
    """Positions of inputs that are constants of the model."""

    outputs: Sequence[bool] = (True,)
    """Whether each output is used."""

    domain: str = "com.microsoft"
    ignored: Mapping[int, Any] = field(default_factory=dict)
    """By output, the places (an index) that ONNX Runtime leaves undefined."""

    declared: Mapping[int, int] = field(default_factory=dict)
    """By output, its element type where ONNX Runtime does not infer it."""


def model_of(calls: Sequence[Call], opset: int = OPSET) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return one model that makes all calls side by side, and its inputs."""
    nodes, infos, outputs, initializers, feeds = [], [], [], [], {}
    for number, call in enumerate(calls):
        names = []
        for position, array in enumerate(call.inputs):
            name = "" if array is None else f"call{number}_input{position}"
            names.append(name)
            if isinstance(array, onnx.TensorProto):
                tensor = onnx.TensorProto()
                tensor.CopyFrom(array)
                tensor.name = name
                initializers.append(tensor)
            elif array is not None and position in call.known:
                initializers.append(numpy_helper.from_array(np.asarray(array), name))
            elif array is not None:
                array = np.asarray(array)
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                infos.append(helper.make_tensor_value_info(name, element, array.shape))
                feeds[name] = array
        made = [f"call{number}_output{i}" if used else "" for i, used in enumerate(call.outputs)]
        nodes.append(
            helper.make_node(
                call.op_type,
                names,
                made,
                name=f"call{number}",
                domain=call.domain,
                **call.attributes,
            )
        )
        outputs.extend(
            helper.make_tensor_value_info(name, call.declared[index], None)
            if index in call.declared
            else helper.make_empty_tensor_value_info(name)
            for index, name in enumerate(made)
            if name
        )
    graph = helper.make_graph(nodes, "calls", infos, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in DOMAINS)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def expected_outputs(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what ONNX Runtime computes, with nothing rewritten."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))


def assert_agrees(
    found: Any, expected: Any, thing: str, tolerance: float, quanta: int, ignored: Any = None
) -> None:
    """Compare dtype, shape and numbers: floats by the largest one, integers by steps."""
    assert found.dtype == expected.dtype, thing
    assert found.shape == expected.shape, thing
    if not expected.size:
        return
    got, want = found.astype("float64"), expected.astype("float64")
    if ignored is not None:
        got, want = got.copy(), want.copy()
        got[ignored] = want[ignored] = 0
    if expected.dtype.kind in "iub":
        assert np.abs(got - want).max() <= quanta, thing
        # Ties that two orders of rounding break differently are rare.
        assert np.mean(got != want) <= (0.02 if quanta else 0), thing
        return
    if expected.dtype == np.float16:
        tolerance = max(tolerance, HALF_TOLERANCE)
    largest = max(np.abs(want[np.isfinite(want)]).max(initial=0), 1e-3)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * largest, err_msg=thing)


def check(calls: Sequence[Call], tolerance: float = TOLERANCE, quanta: int = 0) -> None:
    """Compile all calls as one model and compare every output with ONNX Runtime's."""
    model, feeds = model_of(calls)
    expected = iter(expected_outputs(model, feeds))
    found = iter(run(model, feeds))
    for number, call in enumerate(calls):
        for index, used in enumerate(call.outputs):
            if used:
                thing = f"call {number}: {call.op_type} {dict(call.attributes)} output {index}"
                assert_agrees(
                    next(found), next(expected), thing, tolerance, quanta, call.ignored.get(index)
                )


def translate(call: Call) -> Any:
    """Import one call, for tests of what is refused."""
    model, _ = model_of([call])
    return from_onnx(model)


def floats(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    """Return numbers of both signs."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Return integers over the whole range of a dtype."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)
