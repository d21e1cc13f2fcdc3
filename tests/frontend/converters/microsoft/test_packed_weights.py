from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    integers,
    model_of,
    translate,
)
from tests.frontend.onnx_nodes import run
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters.microsoft.packed_weights import unpack

pytestmark = pytest.mark.slow

N, K, BLOCK = 6, 64, 32
A = floats(3, K)


def weights(bits: int, length: int = K, size: int = BLOCK) -> tuple[Any, Any]:
    """Return packed weights and their scales."""
    blocks = -(-length // size)
    scales = np.abs(floats(N, blocks, seed=1)) * 0.1
    return integers("uint8", N, blocks, size * bits // 8), scales.astype("float32")


def attributes(bits: int, length: int = K, size: int = BLOCK) -> dict[str, int]:
    return {"N": N, "K": length, "bits": bits, "block_size": size}


def test_numbers_lie_in_bytes_lowest_bits_first() -> None:
    packed = np.array([[0x21, 0x43]], "uint8")
    assert unpack(packed, 4).tolist() == [[1, 2, 3, 4]]
    assert unpack(packed, 2).tolist() == [[1, 0, 2, 0, 3, 0, 0, 1]]
    assert unpack(packed, 8) is packed
    # 0x43, 0x21 are the bits 1000_0100 1100_0010, lowest first.
    assert unpack(packed, 3).tolist() == [[1, 4, 4, 1, 4]]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_with_packed_weights_agree_with_onnx_runtime(bits: int) -> None:
    b, scales = weights(bits)
    op, known, bias = "MatMulNBits", [1, 2, 3, 4, 5], floats(N, seed=3)
    zeros = integers("uint8", N, -(-2 * bits // 8))
    check(
        [
            Call(op, [A, b, scales], attributes(bits), known),
            Call(op, [A, b, scales.reshape(-1)], attributes(bits), known),
            Call(op, [floats(2, 3, K), b, scales, zeros], attributes(bits), known),
            Call(op, [A, b, scales, zeros, None, bias], attributes(bits), known),
        ]
    )


def test_columns_need_not_fill_their_last_block() -> None:
    b, scales = weights(4, length=56, size=16)
    zeros = integers("uint8", N, 2)
    call = Call("MatMulNBits", [floats(3, 56), b, scales, zeros], attributes(4, 56, 16), [1, 2, 3])
    check([call])


def test_halves_multiply_packed_weights() -> None:
    b, scales = weights(4)
    call = Call(
        "MatMulNBits", [A.astype("float16"), b, scales.astype("float16")], attributes(4), [1, 2]
    )
    check([call], tolerance=5e-3)


def test_zero_points_may_be_floats() -> None:
    b, scales = weights(4)
    zeros = np.abs(floats(N, 2, seed=2)) * 5
    # ONNX Runtime's CPU kernel takes them together with an index of groups only.
    groups = (np.arange(K) // BLOCK).astype("int32")
    call = Call("MatMulNBits", [A, b, scales, zeros, groups], attributes(4), [1, 2, 3, 4])
    check([call])


def test_groups_may_be_in_any_order() -> None:
    b, scales = weights(4)
    groups = np.random.default_rng(0).integers(0, 2, K).astype("int32")
    check([Call("MatMulNBits", [A, b, scales, None, groups], attributes(4), [1, 2, 4])])


def test_weights_that_do_not_fit_are_refused() -> None:
    b, scales = weights(4)
    with pytest.raises(UnsupportedOperatorError, match="weights of 192 bytes for N=6, K=64"):
        translate(Call("MatMulNBits", [A, b[:, :1], scales], attributes(4), [1, 2]))
    with pytest.raises(UnsupportedOperatorError, match="power of two from 16 on; found 24"):
        translate(Call("MatMulNBits", [A, b, scales], attributes(4, K, 24), [1, 2]))
    with pytest.raises(UnsupportedOperatorError, match=r"input 1 .* weights are unpacked"):
        translate(Call("MatMulNBits", [A, b, scales], attributes(4)))
    with pytest.raises(UnsupportedOperatorError, match="'bits' to be 2 or 3"):
        translate(Call("MatMulNBits", [A, b, scales], attributes(1), [1, 2]))


def test_codes_of_small_floats_agree_with_onnx_runtime() -> None:
    packed, scales = integers("uint8", N * K // 2), np.abs(floats(N * K // BLOCK))
    sizes = {"N": N, "K": K, "block_size": BLOCK}
    check(
        [
            Call("MatMulBnb4", [A, packed, scales], {**sizes, "quant_type": kind}, [1, 2])
            for kind in (0, 1)
        ]
    )


def test_the_turned_weights_are_the_same_ones() -> None:
    """ONNX Runtime's CPU kernel reads past the weights for ``transB=0``."""
    packed, scales = integers("uint8", N * K // 2), np.abs(floats(N * K // BLOCK))
    sizes = {"N": N, "K": K, "block_size": BLOCK, "quant_type": 1}
    turned, straight = run(
        *model_of(
            [
                Call("MatMulBnb4", [np.eye(K, dtype="float32"), packed, scales], sizes, [1, 2]),
                Call(
                    "MatMulBnb4",
                    [np.eye(N, dtype="float32"), packed, scales],
                    {**sizes, "transB": 0},
                    [1, 2],
                ),
            ]
        )
    )
    np.testing.assert_array_equal(turned.T, straight)


def four_bits(element: int, *shape: int) -> Any:
    low, high = (-8, 8) if element == TensorProto.INT4 else (0, 16)
    numbers = np.random.default_rng(0).integers(low, high, int(np.prod(shape)))
    return helper.make_tensor("w", element, shape, numbers.tolist())


def test_rows_of_a_quantized_table_agree_with_onnx_runtime() -> None:
    op, indices = "GatherBlockQuantized", np.array([[1, 4, 0], [2, 2, -1]], "int64")
    scales = np.abs(floats(5, 4)) * 0.1
    size = {"block_size": 16}
    check(
        [
            Call(op, [four_bits(TensorProto.INT4, 5, 64), indices, scales], size, [2]),
            Call(
                op,
                [
                    four_bits(TensorProto.UINT4, 5, 64),
                    indices.astype("int32"),
                    scales,
                    four_bits(TensorProto.UINT4, 5, 4),
                ],
                size,
                [2],
            ),
            Call(op, [integers("uint8", 5, 32), indices, scales], size, [0, 2]),
            Call(
                op,
                [integers("uint8", 5, 32), indices, scales, integers("uint8", 5, 2)],
                size,
                [0, 2, 3],
            ),
            Call(op, [integers("uint8", 5, 64), indices, scales], {**size, "bits": 8}, [0, 2]),
            Call(
                op,
                [four_bits(TensorProto.INT4, 5, 64), indices[0], scales],
                {**size, "gather_axis": 1, "quantize_axis": -1},
                [2],
            ),
            Call(
                op,
                [four_bits(TensorProto.INT4, 5, 64), indices, scales.astype("float16")],
                size,
                [2],
            ),
            Call(
                op,
                [four_bits(TensorProto.INT4, 32, 6), indices, np.abs(floats(2, 6))],
                {**size, "quantize_axis": 0},
                [2],
            ),
        ]
    )
