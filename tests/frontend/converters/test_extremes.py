from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats, model_of
from tests.relay_modules import TARGET

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(3, 4, 5)


def _with_nan(*shape: int, share: float = 0.3) -> Any:
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, shape).astype("float32")
    x[rng.random(shape) < share] = np.nan
    return x


NAN = _with_nan(6, 9)


def _check_built(cases: list[Case]) -> None:
    """Compare with ONNX Runtime what our own kernels make of each case."""
    expected = [each for case in cases for each in by_onnxruntime(case).expected or ()]
    model, feeds = model_of(cases)
    mod, params = fx.from_onnx(model)
    executor = GraphModule(fx.build(mod, TARGET, params=params)["default"](tvm.cpu()))
    executor.set_input(**feeds)
    executor.run()
    for place, wanted in enumerate(expected):
        found = executor.get_output(place).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=str(place))


def test_indices_agree_with_the_reference() -> None:
    check(
        [
            Case(op_type, [x], attributes)
            for op_type in ("ArgMax", "ArgMin")
            for x in (X, (X * 9).astype("int32"))
            for attributes in ({"axis": 1}, {"axis": -1, "keepdims": 0}, {"select_last_index": 1})
        ]
    )


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_a_nan_is_never_beyond_and_never_passed(op_type: str, last: int) -> None:
    cases = [
        Case(op_type, [x], {"axis": axis, "keepdims": keepdims, "select_last_index": last})
        for x in (NAN, _with_nan(5, 40, share=0.6), NAN.astype("float64"))
        for axis in (0, 1)
        for keepdims in (0, 1)
    ]
    check([by_onnxruntime(case) for case in cases])


def test_rows_of_infinities_have_an_index() -> None:
    rows = np.array(list(itertools.product([-np.inf, np.inf, np.nan, 1.0], repeat=3)), "float32")
    cases = [Case(op, [rows], {"axis": 1}) for op in ("ArgMax", "ArgMin")]
    check([by_onnxruntime(case) for case in cases])
    _check_built(cases)


def test_extremes_of_several_operands() -> None:
    others = [NAN[::-1].copy(), floats(9), np.array(0.5, "float32")]
    cases = [
        Case(op_type, operands, known=known)
        for op_type in ("Max", "Min")
        for operands, known in (
            ([NAN, others[0]], []),
            ([NAN, *others], []),
            ([NAN, others[2]], [1]),
            ([others[1], NAN, others[0]], [0]),
            ([NAN, others[0]], [1]),
            ([NAN], []),
        )
    ]
    check([by_onnxruntime(case) for case in cases])


def test_a_nan_passes_activations_and_bounds() -> None:
    low, high = np.float32(-1), np.float32(2)
    ends = np.finfo("float32").min, np.finfo("float32").max
    bounds = [[low, high], [low], [None, high], [ends[0], high], [low, np.float32(np.inf)]]
    activations = ["Relu", "LeakyRelu", "Elu", "HardSigmoid", "Sign"]
    _check_built(
        [
            *(Case(each, [NAN]) for each in activations),
            *(Case(each, [NAN.astype("float64")]) for each in ("Relu", "Sign")),
            *(Case("Clip", [NAN, *each], known=known) for each in bounds for known in ([], [1, 2])),
        ]
    )


def test_extremes_of_integers() -> None:
    x, y = (X * 9).astype("int32"), (X[::-1] * 9).astype("int32")
    check([Case(op_type, [x, y, y - x]) for op_type in ("Max", "Min")])


def test_signs_of_what_has_none() -> None:
    numbers = np.array([0, 1, 7, 200], "uint8")
    check([Case("Sign", [numbers.astype(dtype)]) for dtype in ("uint8", "uint16", "uint32")])
