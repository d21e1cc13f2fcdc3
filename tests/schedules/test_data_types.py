"""Blocks of other types than float32: a template has the numbers right, or leaves them alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, assert_close, module, run_plain, var
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.half_blocks import assert_half_kernel, in_16_bits
from tests.schedules.matrix_blocks import attention, layer_norm, packed_dense
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.report.bench.stored_numbers import numbers_of
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
    "joined chunks": _conv((1, 2, 9, 11, 8), (3, 2, 3, 3, 8, 2)),
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


def _assert_same(body: relay.Expr, *, sums: bool = False) -> None:
    """Check a block against TVM's own kernels; of sums of bfloat16 that they compile.

    What is a block of ours sums in float32, and TVM's would be sums of bfloat16.
    """
    target = resolve_target(TARGET)
    mod = module(body)
    library = compile_kernel(schedule(unscheduled(body), target).func, target, "kernel")
    if sums and "bfloat16" in str(mod["main"].params[0].checked_type):
        return
    inputs: Mapping[str, Any] = _values(mod)
    expected = run_plain(mod, inputs)
    kind = mod["main"].body.checked_type
    kinds = kind.fields if isinstance(kind, tvm.ir.TupleType) else [kind]
    found = [
        tvm.nd.array(np.full(array.shape, 77, each.dtype))
        for array, each in zip(expected, kinds, strict=True)
    ]
    library(*(tvm.nd.array(value) for value in inputs.values()), *found)
    tolerance = TOLERANCES.get(str(kinds[0].dtype), 0.0)
    assert_close(list(map(numbers_of, found)), expected, tolerance)


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
    _assert_same(PRODUCTS[case](*TYPES[types]), sums=True)


@pytest.mark.parametrize("dtype", few_fast(MOVED))
@pytest.mark.parametrize("case", OTHERS)
def test_what_is_moved_or_compared_is_the_same(case: str, dtype: str) -> None:
    if case == "largest" and dtype == "bool":
        pytest.skip("TVM has no least truth value")
    _assert_same(OTHERS[case](dtype))


# In memory; what is computed is float32.
HALVES = ["float16", "bfloat16"]
WIDE = ("float32", "float32", "float32")

# By the template that serves them; products and others as above, and what sums up besides.
STORED: dict[str, Callable[[], relay.Expr]] = {
    **{case: lambda case=case: PRODUCTS[case](*WIDE) for case in PRODUCTS},
    **{case: lambda case=case: OTHERS[case]("float32") for case in OTHERS},
    "long sums": lambda: relay.nn.dense(var("x", 5, 4096), var("w", 7, 4096)),
    "packed": lambda: packed_dense(13, 40, 7, width=8),
    "softmax": lambda: relay.nn.softmax(var("x", 5, 300)),
    "softmax over channels": lambda: relay.nn.softmax(var("x", 2, 19, 5, 7), axis=1),
    "norm": lambda: layer_norm(var("x", 7, 61) + var("y", 7, 61), 61),
    "mean": lambda: relay.mean(var("x", 3, 5, 300), axis=(1, 2)),
    "sums over rows": lambda: relay.sum(var("x", 300, 7), axis=0),
    "attention": lambda: attention(2, 13, 37, 5, 21),
    "average": lambda: relay.nn.avg_pool2d(
        var("x", 1, 2, 9, 11, 8), (3, 3), (2, 2), padding=(1, 1), layout="NCHW8c"
    ),
    "global average": lambda: relay.nn.global_avg_pool2d(var("x", 1, 3, 5, 7, 8), layout="NCHW8c"),
    "functions": lambda: relay.tanh(var("x", 13, 37)) * relay.erf(var("y", 37)),
    "masks": lambda: relay.where(
        relay.greater(var("x", 13, 37), relay.const(0.0)), var("y", 37), var("z", 13, 1)
    ),
    "several results": lambda: relay.Tuple(
        [relay.exp(var("x", 13, 40)), relay.sum(var("y", 13, 40), axis=1)]
    ),
    "places": lambda: relay.argmax(var("x", 13, 37), axis=1),
}


@pytest.mark.parametrize(
    ("case", "dtype"), few_fast_rows([(case, dtype) for dtype in HALVES for case in STORED], 4)
)
def test_what_lies_in_16_bits_is_computed_in_float32(case: str, dtype: str) -> None:
    assert_half_kernel(STORED[case](), dtype)


# Of 512 and of 256 bits, converted at once; TVM's names of the functions of LLVM.
INSTRUCTIONS = {
    ("llvm -mcpu=skylake-avx512", "float16"): ("vcvtph2ps", "zmm"),
    ("llvm -mcpu=haswell", "float16"): ("vcvtph2ps", "ymm"),
    ("llvm -mcpu=skylake-avx512", "bfloat16"): ("vpslld", "zmm"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", "float16"): ("fcvtl", ".4s"),
}


@pytest.mark.parametrize(("target", "dtype"), INSTRUCTIONS)
@pytest.mark.parametrize("case", ["along_frames", "softmax", "functions"])
def test_whole_vectors_are_converted(case: str, target: str, dtype: str) -> None:
    resolved = resolve_target(target)
    body = in_16_bits(STORED[case](), dtype)
    made = schedule(unscheduled(body, resolved), resolved)
    text = compile_kernel(made.func, resolved, "kernel").get_source("asm")
    word, register = INSTRUCTIONS[target, dtype]
    assert [line for line in text.splitlines() if word in line and register in line], case
    # TVM adds functions that convert number by number to every library; none is called.
    calls = [line for line in text.splitlines() if "call" in line or line.strip()[:3] == "bl\t"]
    assert not [line for line in calls if "hfsf" in line or "sfhf" in line or "sfbf" in line]
