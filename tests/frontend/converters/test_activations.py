from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.report.bench.bench_sides import count_operators

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(2, 3, 5)


def test_activations_agree_with_the_reference() -> None:
    check(
        [
            Case("Relu", [X]),
            Case("LeakyRelu", [X], {"alpha": 0.3}),
            Case("PRelu", [X, floats(3, 1, seed=1)]),
            Case("Elu", [X], {"alpha": 1.5}),
            Case("Selu", [X]),
            Case("Celu", [X], {"alpha": 2.0}),
            Case("ThresholdedRelu", [X], {"alpha": 0.4}),
            Case("HardSigmoid", [X], {"alpha": 0.5, "beta": 0.6}),
            Case("HardSwish", [X]),
            Case("Softsign", [X]),
            Case("Shrink", [X], {"bias": 0.2, "lambd": 0.5}),
            Case("Gelu", [X]),
            Case("Hardmax", [X], {"axis": 1}),
            Case("LogSoftmax", [X], {"axis": 1}),
            Case("Softmax", [X], {"axis": 1}),
            Case("Softmax", [X]),
        ]
    )


def test_whole_numbers_shrink_by_fractions() -> None:
    numbers = np.array([0, 1, 2, 3, 100], "uint8")
    signed = np.array([-100, -3, -2, 0, 2, 9], "int8")
    check(
        [
            by_onnxruntime(Case("Shrink", [x], {"bias": 0.5, "lambd": 1.5}))
            for x in (numbers, signed)
        ]
    )


def test_gelu_heeds_its_approximation() -> None:
    check([Case("Gelu", [X], {"approximate": "tanh"})], tolerance=1e-4)  # TVM's tanh is rational


def test_softplus_neither_overflows_nor_loses_small_values() -> None:
    x = np.array([-80.0, -20.0, -9.98, -1.0, 0.0, 1.0, 30.0, 1000.0], "float32")
    exact = np.logaddexp(0.0, x.astype("float64"))
    case = Case("Softplus", [x[:6]], expected=[exact[:6].astype("float32")])
    # Relative to each element: the small ones are the point.
    small = Case("Softplus", [x[1:3]], expected=[exact[1:3].astype("float32")])
    large = Case("Softplus", [x[6:]], expected=[exact[6:].astype("float32")])
    check([case, large])
    check([small])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_mish_neither_overflows_nor_loses_small_values(dtype: str) -> None:
    x = np.array([-10.0, -1.0, 0.0, 1.0, 4.99, 5.01, 19.99, 20.01, 300.0, 1000.0], dtype)
    wide = x.astype("float64")
    factor = np.tanh(np.logaddexp(0.0, wide))
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    for part in (slice(0, 1), slice(1, 8), slice(8, 10)):  # relative to the largest of each part
        expected = (wide * factor)[part].astype(dtype)
        check([Case("Mish", [x[part]], expected=[expected])], tolerance=tolerance)


def test_tanh_of_softplus_takes_one_exponential() -> None:
    nodes = [
        onnx.helper.make_node("Softplus", ["x"], ["soft"]),
        onnx.helper.make_node("Tanh", ["soft"], ["y"]),
    ]
    x = np.array([-30.0, -5.0, 0.0, 5.0, 200.0, np.inf, -np.inf, np.nan], "float32")
    info = [onnx.helper.make_tensor_value_info(n, 1, x.shape) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "mish", info[:1], info[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    mod, params = fx.from_onnx(model)
    assert count_operators(mod) == 7
    executor = graph_executor.GraphModule(fx.build(mod, "llvm", params)["default"](tvm.cpu()))
    executor.run(x=x)
    with np.errstate(invalid="ignore"):  # NaN stays NaN
        expected = np.tanh(np.logaddexp(0.0, x.astype("float64")))
    np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-6)


def test_softmax_of_old_opsets_flattens_its_input() -> None:
    flat = X.reshape(2, 15)
    exponentials = np.exp(flat - flat.max(axis=1, keepdims=True))
    expected = (exponentials / exponentials.sum(axis=1, keepdims=True)).reshape(X.shape)
    check([Case("Softmax", [X], {"axis": 1}, expected=[expected])], opset=11)


def test_a_slope_of_old_opsets_is_per_channel() -> None:
    slope = np.array([0.1, 0.2, 0.3], "float32")
    expected = np.where(X < 0, X * slope[None, :, None], X)
    check([Case("PRelu", [X, slope], expected=[expected])], opset=6)


def test_dropout_keeps_everything_and_refuses_to_train() -> None:
    kept = Case("Dropout", [X], outputs=2, expected=[X, np.ones_like(X, bool)])
    check([kept])
    training = Case("Dropout", [X, np.float32(0.5), np.array(True)], known=[1, 2])
    with pytest.raises(UnsupportedOperatorError, match="training_mode=1"):
        check([training])


def test_swishes_of_opsets_24_and_28() -> None:
    check(
        [
            Case("Swish", [X]),
            Case("Swish", [X], {"alpha": 1.7}),
            Case("SwiGLU", [X, floats(2, 3, 5, seed=1)], {"alpha": 0.5}),
        ],
        28,
    )
