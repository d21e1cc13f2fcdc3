"""Blocks of other types than float32: a template has the numbers right, or leaves them alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, assert_close, module, run_plain, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target, schedule

# Data, weights and sums of products.
TYPES = {
    "int8": ("int8", "int8", "int32"),
    "uint8": ("uint8", "uint8", "int32"),
    "int32": ("int32", "int32", "int32"),
    "float16 in float32": ("float16", "float16", "float32"),
    "float16": ("float16", "float16", "float16"),
    "float64": ("float64", "float64", "float64"),
    "bfloat16": ("bfloat16", "bfloat16", "bfloat16"),
}
# Data that is moved, compared or joined, and not multiplied.
MOVED = ["int8", "bfloat16", "uint8", "int64", "bool", "float16", "float64"]
# Of the largest number: sums of 144 products in another order. float16 has 11 bits.
TOLERANCES = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}


def _conv(
    data: tuple[int, ...], weights: tuple[int, ...], *, padded: bool = True
) -> Callable[[str, str, str], relay.Expr]:
    """Return a convolution in chunks, stride 1, of any types."""
    outer, _, rows, columns, inner, lanes = weights
    pad = (rows // 2, columns // 2) * 2 if padded else (0, 0)

    def body(of_data: str, of_weights: str, of_sums: str) -> relay.Expr:
        return relay.nn.contrib_conv2d_nchwc(
            var("x", *data, dtype=of_data),
            var("w", *weights, dtype=of_weights),
            (1, 1),
            pad,
            (1, 1),
            1,
            outer * lanes,
            (rows, columns),
            f"NCHW{data[-1]}c",
            f"OIHW{inner}i{lanes}o",
            f"NCHW{lanes}c",
            of_sums,
        )

    return body


def _depthwise(of_data: str, of_weights: str, of_sums: str) -> relay.Expr:
    return relay.nn.contrib_depthwise_conv2d_nchwc(
        var("x", 1, 2, 9, 11, 8, dtype=of_data),
        var("w", 2, 1, 3, 3, 1, 8, dtype=of_weights),
        (1, 1),
        (1, 1, 1, 1),
        (1, 1),
        16,
        16,
        (3, 3),
        "NCHW8c",
        "OIHW1i8o",
        "NCHW8c",
        of_sums,
    )


def _dense(of_data: str, of_weights: str, of_sums: str) -> relay.Expr:
    data, weights = var("x", 9, 24, dtype=of_data), var("w", 33, 24, dtype=of_weights)
    return relay.nn.dense(data, weights, out_dtype=of_sums)


PRODUCTS = {
    "an image": _conv((1, 3, 9, 11, 1), (2, 3, 3, 3, 1, 8)),
    "an image without a border": _conv((1, 3, 9, 11, 1), (2, 3, 3, 3, 1, 8), padded=False),
    "one pixel": _conv((1, 2, 9, 11, 8), (4, 2, 1, 1, 8, 8)),
    "few outputs": _conv((1, 8, 8, 8, 16), (1, 8, 1, 1, 16, 4)),
    "along_frames": _conv((1, 16, 7, 80, 1), (2, 16, 3, 1, 1, 16)),
    "direct": _conv((1, 2, 9, 11, 8), (2, 2, 3, 3, 8, 8)),
    "depthwise": _depthwise,
    "dense": _dense,
}

OTHERS: dict[str, Callable[[str], relay.Expr]] = {
    "transposed": lambda dtype: relay.transpose(var("x", 40, 33, dtype=dtype)),
    "planes of pixels": lambda dtype: relay.transpose(var("x", 9, 11, 3, dtype=dtype), (2, 0, 1)),
    "largest": lambda dtype: relay.nn.max_pool2d(
        var("x", 1, 2, 9, 11, 8, dtype=dtype), (3, 3), (2, 2), padding=(1, 1), layout="NCHW8c"
    ),
    "joined": lambda dtype: relay.concatenate(
        [
            var("x", 4, 9, 8, dtype=dtype),
            relay.transpose(var("y", 4, 8, 9, dtype=dtype), (0, 2, 1)),
        ],
        axis=2,
    ),
}


def _values(mod: tvm.IRModule) -> dict[str, np.ndarray]:
    """Return numbers of the whole range of integers, and of a normal distribution otherwise."""
    generator, values = np.random.default_rng(0), {}
    for param in mod["main"].params:
        dtype, shape = param.checked_type.dtype, [int(each) for each in param.checked_type.shape]
        if dtype == "bool":
            values[param.name_hint] = generator.integers(0, 2, shape).astype(dtype)
        elif "int" in dtype:
            limits = np.iinfo(dtype)
            drawn = generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
            values[param.name_hint] = np.where(drawn == 0, 1, drawn).astype(dtype)  # also divisors
        else:
            values[param.name_hint] = generator.standard_normal(shape).astype(dtype)
    return values


def _assert_same(body: relay.Expr) -> None:
    """Check a block against TVM's own kernels; of bfloat16, which NumPy lacks, that it compiles."""
    target = resolve_target(TARGET)
    mod = module(body)
    library = compile_kernel(schedule(unscheduled(body), target).func, target, "kernel")
    if "bfloat16" in str(mod["main"].params[0].checked_type):
        return
    inputs: Mapping[str, Any] = _values(mod)
    expected = run_plain(mod, inputs)
    found = [tvm.nd.array(np.full_like(array, 77)) for array in expected]
    library(*(tvm.nd.array(value) for value in inputs.values()), *found)
    tolerance = TOLERANCES.get(str(expected[0].dtype), 0.0)
    assert_close([each.numpy() for each in found], expected, tolerance)


RESULTS: dict[str, Callable[[relay.Expr], relay.Expr]] = {
    "compared": lambda y: relay.greater(y, var("b", 1, 1, 1, 1, 4)),
    "float16": lambda y: relay.cast(y + var("b", 1, 1, 1, 1, 4), "float16"),
    "int8": lambda y: relay.cast(relay.clip(relay.round(y), -128, 127), "int8"),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_may_be_of_another_type_than_its_sums(case: str) -> None:
    _assert_same(RESULTS[case](PRODUCTS["few outputs"]("float32", "float32", "float32")))


QUOTIENTS = {
    "of both signs": lambda: relay.divide(
        relay.cast(var("x", 3, 40, dtype="uint8"), "int32"), var("y", 3, 40, dtype="int32")
    ),
    "a remainder": lambda: relay.mod(
        relay.cast(var("x", 3, 40, dtype="uint8"), "int32"), var("y", 3, 40, dtype="int32")
    ),
    "of a negative constant": lambda: relay.divide(
        relay.cast(var("x", 3, 40, dtype="uint8"), "int32"), relay.const(-3)
    ),
}


@pytest.mark.parametrize("case", QUOTIENTS)
def test_quotients_of_integers_are_rounded_towards_zero(case: str) -> None:
    _assert_same(relay.transpose(QUOTIENTS[case]()))


@pytest.mark.parametrize("types", few_fast(TYPES))
@pytest.mark.parametrize("case", PRODUCTS)
def test_sums_of_products_are_of_their_own_type(case: str, types: str) -> None:
    _assert_same(PRODUCTS[case](*TYPES[types]))


@pytest.mark.parametrize("dtype", few_fast(MOVED))
@pytest.mark.parametrize("case", OTHERS)
def test_what_is_moved_or_compared_is_the_same(case: str, dtype: str) -> None:
    if case == "largest" and dtype == "bool":
        pytest.skip("TVM has no least truth value")
    _assert_same(OTHERS[case](dtype))
