"""Operators on float16 whose sums and squares are beyond a half: the numbers are float32's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import (
    Case,
    assert_close,
    by_onnxruntime,
    expected_outputs,
    floats,
    model_of,
)
from tests.relay_modules import operator_names
from tests.sampled import few_fast
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.half_precision import COMPUTED_IN_SINGLE
from tvm_fusionx.report.bench.plain_tvm import run_once

HALF, SINGLE = np.float16, np.float32
TARGET = "llvm -mcpu=native"
# Of the largest: what is rounded right may be either of two neighbours.
STEP = 2.0**-10

LONG = 4096


def _large(*shape: int) -> Any:
    """Return numbers around 300: their squares are beyond a half, and so is a sum of 219."""
    return (300 + 4 * floats(*shape)).astype(HALF)


def _halves(*shape: int, seed: int = 0) -> Any:
    return floats(*shape, seed=seed).astype(HALF)


ROWS, IMAGE = _large(2, LONG), _large(2, 4, 32, 32)
CHANNELS = [_halves(4, seed=seed) for seed in (1, 2)]
MEAN, VARIANCE = np.full(4, 300, HALF), np.full(4, 16, HALF)
# ONNX's own evaluator forgets channels of the first, and lacks the second.
NOT_OF_THE_REFERENCE = ("LRN", "GlobalLpPool")
AXES = np.array([1], "int64")
THRESHOLD = 0.6484016
NEAR = np.array([0.648, 0.6484375, 0.649, -0.6484375], HALF)

CASES: dict[str, Case] = {
    "LayerNormalization": Case(
        "LayerNormalization", [ROWS, _halves(LONG, seed=1), _halves(LONG, seed=2)], outputs=3
    ),
    "LayerNormalization over images": Case("LayerNormalization", [IMAGE, _halves(32)]),
    "InstanceNormalization": Case("InstanceNormalization", [IMAGE, *CHANNELS]),
    "BatchNormalization": Case(
        "BatchNormalization", [IMAGE, *CHANNELS, MEAN, VARIANCE], known=[1, 2, 3, 4]
    ),
    "BatchNormalization, training": Case(
        "BatchNormalization",
        [IMAGE, *CHANNELS, MEAN, VARIANCE],
        {"training_mode": 1},
        known=[1, 2, 3, 4],
        outputs=3,
    ),
    "LpNormalization": Case("LpNormalization", [ROWS]),
    "LpNormalization of absolutes": Case("LpNormalization", [ROWS], {"p": 1}),
    "MeanVarianceNormalization": Case("MeanVarianceNormalization", [IMAGE]),
    "LRN": Case("LRN", [IMAGE], {"size": 3, "alpha": 0.1}),
    "Softmax": Case("Softmax", [ROWS]),
    "LogSoftmax": Case("LogSoftmax", [ROWS]),
    "LogSoftmax of equals": Case("LogSoftmax", [np.full((1, 70000), 2, HALF)]),
    "ReduceMean": Case("ReduceMean", [ROWS, AXES], known=[1]),
    "ReduceMean of images": Case("ReduceMean", [IMAGE, np.array([2, 3], "int64")], known=[1]),
    "ReduceSum": Case("ReduceSum", [_halves(2, LONG), AXES], known=[1]),
    "ReduceL1": Case("ReduceL1", [_halves(2, LONG), AXES], known=[1]),
    "ReduceL2": Case("ReduceL2", [ROWS, AXES], known=[1]),
    "ReduceLogSum": Case("ReduceLogSum", [ROWS, AXES], known=[1]),
    "ReduceLogSumExp": Case("ReduceLogSumExp", [ROWS, AXES], known=[1]),
    "ReduceSumSquare": Case("ReduceSumSquare", [_halves(2, LONG), AXES], known=[1]),
    "ReduceProd": Case("ReduceProd", [np.float16([[300, 300, 1 / 300]]), AXES], known=[1]),
    "CumSum": Case("CumSum", [np.abs(_halves(2, LONG)), np.array(1)], known=[1]),
    "Einsum": Case("Einsum", [ROWS / 128, ROWS / 128], {"equation": "ij,ij->i"}),
    "AveragePool": Case("AveragePool", [IMAGE], {"kernel_shape": [15, 15]}),
    "GlobalAveragePool": Case("GlobalAveragePool", [IMAGE]),
    "LpPool": Case("LpPool", [IMAGE], {"kernel_shape": [4, 4]}),
    "GlobalLpPool": Case("GlobalLpPool", [IMAGE]),
    "Gelu": Case("Gelu", [_large(64) * np.resize(HALF([1, -1]), 64)], {"approximate": "tanh"}),
    "Mish": Case("Mish", [_large(64) / 16]),
    # Where pixels of a wide picture lie is beyond a half's digits.
    "AffineGrid": Case(
        "AffineGrid", [np.float16([[[1, 1, -1], [0, 1, 0]]]), np.array([1, 1, 9, 63])], known=[1]
    ),
    "Mean": Case("Mean", [np.full(4, 60000, HALF)] * 3),
    # The half next to the threshold is above it; the threshold as a half is that half.
    "ThresholdedRelu": Case("ThresholdedRelu", [NEAR], {"alpha": THRESHOLD}),
    "Shrink": Case("Shrink", [NEAR], {"lambd": THRESHOLD, "bias": 0.25}),
    # Where a product and a shift that are no halves nearly cancel.
    "HardSigmoid": Case(
        "HardSigmoid", [np.linspace(-1.49, -1.4, 32).astype(HALF)], {"alpha": 0.22, "beta": 0.329}
    ),
    "HardSwish": Case("HardSwish", [np.linspace(-2.999, -2.95, 32).astype(HALF)]),
    "Elu": Case("Elu", [-np.abs(NEAR)], {"alpha": 0.7}),
    "Selu": Case("Selu", [-np.abs(NEAR)]),
    "Celu": Case("Celu", [-np.abs(NEAR)], {"alpha": 0.7}),
    "Swish": Case("Swish", [NEAR], {"alpha": 0.7}),
    "SwiGLU": Case("SwiGLU", [NEAR, NEAR], {"alpha": 0.7}),
}


def _group_normalization(x: Any) -> Any:
    grouped = x.astype(SINGLE).reshape(2, 2, -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    normal = centred / np.sqrt(grouped.var(axis=2, keepdims=True) + 1e-5)
    scale, shift = (each.astype(SINGLE)[None, :, None, None] for each in CHANNELS)
    return normal.reshape(x.shape) * scale + shift


def _expected(case: Case) -> list[Any]:
    """Return what float32 gives for the same numbers, as halves where the model has halves."""
    wide = [each.astype(SINGLE) if each.dtype == HALF else each for each in case.inputs]
    with np.errstate(over="ignore"):
        widened = replace(case, inputs=wide)
        if case.op_type in NOT_OF_THE_REFERENCE:
            widened = by_onnxruntime(widened)
        found = [np.asarray(each) for each in expected_outputs(widened)]
        kept = SINGLE if case.op_type == "LayerNormalization" else HALF
        return [found[0].astype(HALF), *(each.astype(kept) for each in found[1:])]


def _found(case: Case, **options: Any) -> list[Any]:
    model, feeds = model_of([case])
    mod, params = from_onnx(model)
    library = fx.build(mod, TARGET, params=params, **options)
    taken = {param.name_hint for param in mod["main"].params}
    return run_once(library, {name: each for name, each in feeds.items() if name in taken})


def _check(case: Case, expected: Sequence[Any], **options: Any) -> None:
    assert all(np.isfinite(each.astype(SINGLE)).all() for each in expected)
    for place, (one, other) in enumerate(zip(_found(case, **options), expected, strict=True)):
        assert_close(one, other, f"{case.op_type} output {place}", STEP)


@pytest.mark.parametrize("name", few_fast(CASES))
@pytest.mark.parametrize("fuse", [True, False])
def test_statistics_are_those_of_float32(name: str, fuse: bool) -> None:
    _check(CASES[name], _expected(CASES[name]), fuse=fuse)


@pytest.mark.parametrize("fuse", [True, False])
def test_groups_of_channels(fuse: bool) -> None:
    case = Case("GroupNormalization", [IMAGE, *CHANNELS], {"num_groups": 2})
    _check(case, [_group_normalization(IMAGE).astype(HALF)], fuse=fuse)


def test_rows_whose_number_the_data_decides() -> None:
    x = _large(9, 16)
    x[[2, 5]] = 0
    shared = {"axes": np.array([1]), "scale": np.ones(16, HALF)}
    rows = [
        onnx.helper.make_node("ReduceMax", ["x", "axes"], ["most"], keepdims=0),
        onnx.helper.make_node("Cast", ["most"], ["is_kept"], to=onnx.TensorProto.BOOL),
        onnx.helper.make_node("Compress", ["x", "is_kept"], ["rows"], axis=0),
    ]
    made = [
        onnx.helper.make_node("LayerNormalization", ["rows", "scale"], ["norm"]),
        onnx.helper.make_node("ReduceL2", ["rows", "axes"], ["length"]),
        onnx.helper.make_node("LogSoftmax", ["rows"], ["logarithm"], axis=-1),
    ]
    kind = onnx.TensorProto.FLOAT16
    names = [node.output[0] for node in made]
    graph = onnx.helper.make_graph(
        [*rows, *made],
        "open",
        [onnx.helper.make_tensor_value_info("x", kind, x.shape)],
        [onnx.helper.make_tensor_value_info(name, kind, None) for name in names],
        [numpy_helper.from_array(array, name) for name, array in shared.items()],
    )
    opset = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    onnxruntime = pytest.importorskip("onnxruntime")
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(names, {"x": x})
    mod, params = fx.from_onnx(model)
    found = fx.build(mod, TARGET, params=params).run(x=x)
    for name, ours, theirs in zip(names, found, wanted, strict=True):
        assert_close(ours, theirs, name, STEP)


def test_every_operator_of_the_table_has_a_case() -> None:
    cases = {case.op_type for case in CASES.values()} | {"GroupNormalization"}
    own = {name for name in COMPUTED_IN_SINGLE if "." not in name}
    assert own <= cases


@pytest.mark.parametrize(
    ("stash", "dtype"), [(None, SINGLE), (1, SINGLE), (onnx.TensorProto.DOUBLE, np.float64)]
)
def test_statistics_are_kept_in_the_type_that_the_node_names(stash: int | None, dtype: Any) -> None:
    attributes = {} if stash is None else {"stash_type": stash}
    case = Case("LayerNormalization", [ROWS, _halves(LONG)], attributes, outputs=3)
    mod, _ = from_onnx(model_of([case])[0])
    types = [str(each.dtype) for each in mod["main"].ret_type.fields]
    assert types == ["float16", np.dtype(dtype).name, np.dtype(dtype).name]


def test_known_operands_are_summed_up_in_float32_too() -> None:
    case = replace(CASES["ReduceL2"], known=[0, 1])
    model, _ = model_of([case])
    mod, _ = from_onnx(model)
    assert operator_names(mod["main"]) == []
    assert_close(mod["main"].body.data.numpy(), _expected(case)[0], "ReduceL2", STEP)


def test_other_types_are_translated_as_they_are() -> None:
    for dtype in (SINGLE, np.float64):
        wide = [
            each.astype(dtype) if each.dtype == HALF else each
            for each in CASES["LpNormalization"].inputs
        ]
        mod, _ = from_onnx(model_of([replace(CASES["LpNormalization"], inputs=wide)])[0])
        assert "cast" not in operator_names(mod["main"])


def test_statistics_in_float32_of_data_in_halves() -> None:
    """Since opset 15 the statistics may have a type of their own."""
    operands = [IMAGE, *CHANNELS, MEAN.astype(SINGLE), VARIANCE.astype(SINGLE)]
    case = Case("BatchNormalization", operands, known=[1, 2, 3, 4])
    _check(case, _expected(case))


def test_a_norm_by_tvms_own_converter() -> None:
    skip, gamma, beta = _large(1, 2, 256), _halves(256, seed=1), _halves(256, seed=2)
    x = _large(1, 2, 256)
    bias = _halves(256, seed=3)
    total = x.astype(SINGLE) + skip.astype(SINGLE) + bias.astype(SINGLE)
    mean, variance = total.mean(axis=2, keepdims=True), total.var(axis=2, keepdims=True)
    normal = (total - mean) / np.sqrt(variance + 1e-12)
    expected = (normal * gamma.astype(SINGLE) + beta.astype(SINGLE)).astype(HALF)
    case = Case(
        "SkipLayerNormalization",
        [x, skip, gamma, beta, bias],
        {"epsilon": 1e-12},
        known=[2, 3, 4],
        expected=[expected],
        domain="com.microsoft",
    )
    model, feeds = model_of([case])
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    mod, params = from_onnx(model)
    (found,) = run_once(fx.build(mod, TARGET, params=params), feeds)
    assert_close(found, expected, "SkipLayerNormalization", STEP)
    assert numpy_helper.to_array(model.graph.initializer[0]).dtype == HALF
