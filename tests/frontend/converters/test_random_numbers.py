from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import model, value
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx


def _drawn(
    op_type: str, name: str = "draw", x_type: int = TensorProto.FLOAT, **options: Any
) -> Any:
    inputs = ["x"] if op_type.endswith("Like") else []
    if not inputs:
        options = {"shape": [400, 50], **options}
    nodes = [
        helper.make_node(op_type, inputs, ["r"], name=name, **options),
        helper.make_node("Identity", ["r"], ["y"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    given = model(nodes, [value("x", [400, 50], x_type)], ["y", "z"])
    dtype = helper.tensor_dtype_to_np_dtype(x_type)
    return run(given, {"x": np.zeros((400, 50), dtype)})[0]


@pytest.mark.parametrize("suffix", ["", "Like"])
def test_normal_numbers_have_their_mean_and_deviation(suffix: str) -> None:
    drawn = _drawn(f"RandomNormal{suffix}", mean=3.0, scale=2.0)
    assert drawn.dtype == np.float32
    assert drawn.mean() == pytest.approx(3, abs=0.1)
    assert drawn.std() == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("suffix", ["", "Like"])
def test_uniform_numbers_lie_within_their_limits(suffix: str) -> None:
    drawn = _drawn(f"RandomUniform{suffix}", low=-1.0, high=3.0)
    assert -1 <= drawn.min() < -0.99
    assert 2.99 < drawn.max() < 3
    assert drawn.mean() == pytest.approx(1, abs=0.05)


def test_the_type_is_the_attributes_or_the_inputs() -> None:
    half = _drawn("RandomNormalLike", x_type=TensorProto.FLOAT16)
    assert half.dtype == np.float16
    double = _drawn("RandomNormalLike", dtype=TensorProto.DOUBLE)
    assert double.dtype == np.float64
    assert _drawn("RandomUniform", dtype=TensorProto.DOUBLE).dtype == np.float64


def test_equal_seeds_draw_equal_numbers_and_other_nodes_others() -> None:
    first = _drawn("RandomNormalLike", seed=1.5)
    np.testing.assert_array_equal(first, _drawn("RandomNormalLike", "other", seed=1.5))
    assert not np.array_equal(first, _drawn("RandomNormalLike", seed=2.5))
    unseeded = _drawn("RandomNormalLike")
    np.testing.assert_array_equal(unseeded, _drawn("RandomNormalLike"))
    assert not np.array_equal(unseeded, _drawn("RandomNormalLike", "other"))


def test_so_many_that_a_library_would_be_numbers_are_refused() -> None:
    node = helper.make_node("RandomNormal", [], ["y"], shape=[1 << 20, 1 << 20])
    with pytest.raises(UnsupportedOperatorError, match="at most 67108864 random numbers"):
        from_onnx(model([node], [value("x", [1])], ["y"]))
