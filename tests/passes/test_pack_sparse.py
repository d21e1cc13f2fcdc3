"""Sparse products in a module: right numbers end to end, and a model without zeros left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relay
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.random_sparse import TARGET, compare
from tests.random_sparse_integers import compare as compare_integers
from tests.relay_modules import REASSOCIATING, module, operator_names, var
from tests.sampled import few_fast
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.passes import PackSparse
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target

AVX512 = "llvm -mcpu=znver4"


def _dense(density: float) -> Any:
    return module(relay.nn.dense(var("x", 16, 128), relay.const(pruned(32, 128, 16, density))))


def test_a_pruned_weight_becomes_sparse() -> None:
    assert operator_names(PackSparse(AVX512)(_dense(0.1))["main"]) == ["fusionx.sparse_dense"]


@pytest.mark.parametrize("target", [AVX512, "opencl"])
def test_what_gains_nothing_is_left_alone(target: str) -> None:
    # On a GPU a kernel that puts so little data in planes takes longer than the whole product.
    before = _dense(1.0 if target == AVX512 else 0.1)
    tvm.ir.assert_structural_equal(PackSparse(target)(before), before)


def _model() -> Any:
    """Return two windows with a residual, an average and a product, as ONNX with zeros in it."""

    def weight(*shape: int, group: int = 16, density: float = 0.15, seed: int = 0) -> Any:
        flat = pruned(shape[0], int(np.prod(shape[1:])), group, density, seed)
        return flat.reshape(shape)

    constants = {
        "w1": weight(32, 32, 3, 3),
        "w2": weight(32, 32, 1, 1, density=0.3, seed=1),
        "w3": np.ascontiguousarray(weight(48, 32, density=0.3, seed=2).T),
        "b": np.linspace(-1, 1, 32).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"]),
        helper.make_node("Add", ["c2", "r1"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "pruned",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


def test_a_pruned_model_end_to_end() -> None:
    model = _model()
    mod, params = fx.from_onnx(model)
    target = fx.schedules.resolve_target("llvm -mcpu=native")
    lib = fx.build(mod, target, params=params)
    x = np.random.default_rng(0).standard_normal((1, 32, 20, 20)).astype("float32")
    compiled = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    compiled.set_input("x", x)
    compiled.run()
    found = compiled.get_output(0).numpy()
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
    names = operator_names(PackSparse(AVX512)(bind_parameters(mod, params))["main"])
    assert names.count("fusionx.sparse_conv2d_NCHWc") == 2


# Windows over frames, windows over images, and a row of products.
@pytest.mark.parametrize("seed", [0, 1, 11])
def test_random_graphs(seed: int) -> None:
    error, count = compare(seed)
    assert count
    assert error <= REASSOCIATING


# Windows over images with a residual, rows, and windows over frames.
@pytest.mark.parametrize("seed", few_fast([2, 9, 0], 1))
def test_random_graphs_on_opencl(seed: int) -> None:
    require_opencl()
    error, count = compare(seed, "opencl")
    assert count
    assert error <= REASSOCIATING


# Windows over images with residuals, rows, and windows beside a border of another number.
@pytest.mark.parametrize("seed", [1, 5, 7])
def test_random_graphs_of_integers(seed: int) -> None:
    error, count = compare_integers(seed)
    dot = describe_cpu(resolve_target(TARGET)).dot
    if dot is not None and dot.rows == 1:
        assert count
    assert error == 0


def test_the_least_gain_is_a_choice() -> None:
    dense = _dense(0.6)
    assert operator_names(PackSparse(AVX512)(dense)["main"]) == ["fusionx.sparse_dense"]
    assert operator_names(PackSparse(AVX512, least_gain=9)(dense)["main"]) == ["nn.dense"]
