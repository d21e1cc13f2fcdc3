"""Matrices of a few bits in blocks: integers until the target is known, right numbers, room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.relay_modules import TARGET
from tvm_fusionx.frontend.converters.block_weights import in_blocks, why_not_blocks
from tvm_fusionx.passes import rewrite_quantized
from tvm_fusionx.processors.cpu import Cpu, describe_cpu

N, K, BLOCK = 64, 128, 32
TOLERANCE = 1e-5


def _draw(low: int, high: int, *shape: int) -> Any:
    return np.random.default_rng(0).integers(low, high, shape)


def _scales(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(1).uniform(0.1, 1, shape).astype(dtype)


def _model(nodes: list[Any], constants: list[Any], rows: int, dtype: str = "float32") -> Any:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (
        helper.make_tensor_value_info(name, element, [rows, size])
        for name, size in (("x", K), ("y", N))
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _blocked(element: int, axis: int, rows: int = 1) -> Any:
    """Return MatMul or Gemm behind a DequantizeLinear of 4 bits."""
    shape, blocks = ((K, N), (K // BLOCK, N)) if axis == 0 else ((N, K), (N, K // BLOCK))
    low, high = (-8, 8) if element == TensorProto.INT4 else (0, 16)
    constants = [
        helper.make_tensor("w", element, shape, _draw(low, high, *shape).ravel().tolist()),
        numpy_helper.from_array(_scales(*blocks), "s"),
        helper.make_tensor("z", element, blocks, _draw(0, 4, *blocks).ravel().tolist()),
    ]
    read = helper.make_node("DequantizeLinear", list("wsz"), ["d"], axis=axis, block_size=BLOCK)
    product = helper.make_node("MatMul", ["x", "d"], ["y"], name="product")
    if axis == 1:
        product = helper.make_node("Gemm", ["x", "d"], ["y"], transB=1, name="product")
    return _model([read, product], constants, rows)


def _bits(bits: int, rows: int = 1, dtype: str = "float32") -> Any:
    """Return MatMulNBits."""
    packed = _draw(0, 256, N, K // BLOCK, BLOCK * bits // 8).astype("uint8")
    constants = [
        numpy_helper.from_array(packed, "w"),
        numpy_helper.from_array(_scales(N, K // BLOCK, dtype=dtype), "s"),
    ]
    attributes = {"N": N, "K": K, "bits": bits, "block_size": BLOCK}
    node = helper.make_node("MatMulNBits", list("xws"), ["y"], domain="com.microsoft", **attributes)
    return _model([node], constants, rows, dtype)


MODELS = {
    "int4 by columns": lambda: (_blocked(TensorProto.INT4, 0), 0.2),
    "uint4 by rows": lambda: (_blocked(TensorProto.UINT4, 1), 0.21),
    "4 bits": lambda: (_bits(4), 0.16),
    "8 bits": lambda: (_bits(8, rows=2), 0.29),
    "4 bits of halves": lambda: (_bits(4, dtype="float16"), 0.16),
}


def _without_caches(target: Any) -> Cpu:
    """Describe a processor whose memory is always what a product of one row waits for."""
    return replace(describe_cpu(target), l2_bytes=1, llc_slice_bytes=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_packed_weights_agree_with_onnx_runtime_and_take_less_room(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    monkeypatch.setattr(rewrite_quantized, "describe_cpu", _without_caches)
    model, share = MODELS[name]()
    shape = [each.dim_value for each in model.graph.input[0].type.tensor_type.shape.dim]
    dtype = "float16" if "halves" in name else "float32"
    x = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    options = onnxruntime.SessionOptions()
    # Optimized, it multiplies 4 bits by 8.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (expected,) = session.run(None, {"x": x})
    mod, params = fx.from_onnx(model)
    library = fx.build(mod, TARGET, params=params)
    executor = GraphModule(library["default"](tvm.cpu()))
    executor.run(x=x)
    found = executor.get_output(0).numpy()
    assert found.dtype == expected.dtype
    tolerance = TOLERANCE if dtype == "float32" else 2.0**-10
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
    held = sum(array.numpy().nbytes for array in library.get_params().values())
    assert held <= share * 4 * N * K


def test_without_a_target_they_are_integers_and_for_others_floats() -> None:
    mod, _ = fx.from_onnx(_blocked(TensorProto.INT4, 0))
    assert "qnn.dequantize" in mod["main"].astext(show_meta_data=False)
    floats = fx.passes.RewriteQuantized("opencl")(mod)
    assert "qnn.dequantize" not in floats["main"].astext(show_meta_data=False)


@pytest.mark.parametrize(
    ("dtype", "size", "zero", "reason"),
    [
        ("int16", 4, 0, "its levels are int16"),
        ("int8", 4, 0.5, "its zero points are no whole numbers"),
        ("int8", 5, 0, "its last block is cut"),
        ("int8", 4, 0, None),
    ],
)
def test_what_is_not_kept_in_blocks(dtype: str, size: int, zero: Any, reason: Any) -> None:
    assert why_not_blocks(np.zeros((2, 8), dtype), np.full((2, 2), zero), size) == reason


def test_one_block_in_all_has_a_scale_without_axes() -> None:
    made = in_blocks(np.zeros((1, 8), "int8"), np.ones((1, 1)), np.zeros((1, 1)))
    typed = tvm.relay.transform.InferType()(tvm.IRModule.from_expr(made))
    assert typed["main"].ret_type == tvm.relay.TensorType((1, 8), "float32")
