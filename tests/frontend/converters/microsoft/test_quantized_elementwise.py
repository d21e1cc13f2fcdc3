from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, integers, translate
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

A, B = integers("uint8", 2, 3, 8), integers("uint8", 3, 8, seed=1)
SCALES = [np.float32(0.0317), np.float32(0.0523), np.float32(0.0971)]
ZEROS = [np.uint8(120), np.uint8(7), np.uint8(131)]


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products_agree_with_onnx_runtime(op: str) -> None:
    (sa, sb, sc), (za, zb, zc) = SCALES, ZEROS
    signed = [z.astype("int8") for z in (np.int16(-3), np.int16(4), np.int16(0))]
    check(
        [
            Call(op, [A, sa, za, B, sb, zb, sc, zc]),
            Call(op, [A, sa, za, B, sb, zb, sc, zc], known=[1, 2, 3, 4, 5, 6, 7]),
            Call(op, [A, sa, za, B[:1], sb, zb, sc, zc]),
            Call(op, [A, sa, za, np.uint8(200), sb, zb, sc, zc]),
            Call(
                op,
                [A.astype("int8"), sa, signed[0], B.astype("int8"), sb, signed[1], sc, signed[2]],
            ),
        ],
        quanta=1,
    )


def test_functions_agree_with_onnx_runtime() -> None:
    (sx, sy, _), (zx, zy, _) = SCALES, ZEROS
    signed = [A.astype("int8"), sx, np.int8(-3)]
    small, low = np.float32(1 / 256), np.uint8(0)
    check(
        [
            Call("QLinearSigmoid", [A, sx, zx, small, low]),
            Call("QLinearSigmoid", [A, sx, None, small, None]),
            Call("QLinearSigmoid", [*signed, small, np.int8(-128)]),
            Call("QLinearLeakyRelu", [A, sx, zx, sy, zy]),
            Call("QLinearLeakyRelu", [*signed, sy, np.int8(9)], {"alpha": 0.3}),
            Call("QLinearSoftmax", [A, sx, zx, small, low], {"opset": 13}),
            Call("QLinearSoftmax", [A, sx, zx, small, low], {"opset": 13, "axis": 1}),
            Call("QLinearSoftmax", [A, sx, zx, small, low], {"opset": 12, "axis": 1}),
            Call("QLinearSoftmax", [*signed, small, np.int8(-128)], {"opset": 13}),
        ],
        quanta=1,
    )


def test_joins_and_choices_agree_with_onnx_runtime() -> None:
    (sa, sb, sc), (za, zb, zc) = SCALES, ZEROS
    b = integers("uint8", 2, 5, 8, seed=1)
    mask = np.random.default_rng(0).integers(0, 2, (2, 3, 8)).astype(bool)
    check(
        [
            Call("QLinearConcat", [sc, zc, A, sa, za, b, sb, zb], {"axis": 1}),
            Call("QLinearConcat", [sc, zc, A, sc, zc, A, sb, zb], {"axis": -1}),
            Call("QLinearConcat", [sc, zc, A, sa, za], {"axis": 0}),
            Call("QLinearWhere", [mask, A, sa, za, B, sb, zb, sc, zc]),
        ],
        quanta=1,
    )


def test_a_part_without_its_scale_is_refused() -> None:
    inputs = [SCALES[2], ZEROS[2], A, SCALES[0], ZEROS[0], B]
    with pytest.raises(UnsupportedOperatorError, match="a scale and a zero point for each part"):
        translate(Call("QLinearConcat", inputs, {"axis": 0}))
