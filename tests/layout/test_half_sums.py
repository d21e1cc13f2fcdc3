"""Weights become halves that no finite operand makes an infinite chain of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.passes.assert_pass import block
from tests.relay_modules import module, operator_names, var
from tests.schedules.blocked_blocks import NEON
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.expressions.half_terms import MARK
from tvm_fusionx.layout.half_sums import error_bound, sum_in_halves
from tvm_fusionx.tir.half_terms import HALF_ADDEND

HALF = "float16"
LARGEST = 65504.0
TERMS = 8
CHANNELS = 16


def net(
    weights: np.ndarray, bias: np.ndarray, bound: float | None = 6.0, taps: int = 1, chunk: int = 8
) -> tvm.IRModule:
    """Return two blocks: one gives halves within a bound, the other multiplies them by weights."""
    p, q = var("p", 1, 2, 5, 7, chunk), var("q", 1, 2, 5, 7, chunk, dtype=HALF)
    w = var("w", *weights.shape)
    b = var("b", *bias.shape)
    first = relay.cast(p if bound is None else relay.clip(p, 0, bound), HALF)
    inner = f"OIHW{weights.shape[-2]}i{chunk}o"
    layout = f"NCHW{chunk}c"
    convolution = (
        relay.nn.contrib_conv2d_nchwc if taps == 1 else relay.nn.contrib_depthwise_conv2d_nchwc
    )
    groups = 1 if taps == 1 else 2 * chunk
    side = taps // 2
    made = convolution(
        relay.cast(q, "float32"), w, (1, 1), (side,) * 4, (1, 1), groups, 2 * chunk, (taps, taps),
        layout, inner, layout,
    )  # fmt: skip
    second = relay.cast(made + b, HALF)
    whole = block("b", [q, w, b], second)(
        block("a", [p], first)(var("x", 1, 2, 5, 7, chunk)),
        relay.const(weights),
        relay.const(bias),
    )
    return module(whole)


def pointwise(scale: float = 0.1, chunk: int = 8) -> np.ndarray:
    """Return weights of all channels."""
    shape = (2, 2, 1, 1, chunk, chunk)
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype("float32")


def bias_of(scale: float = 0.1) -> np.ndarray:
    """Return a number for each channel."""
    return np.full((1, 2, 1, 1, 8), scale, "float32")


def window(
    channels: int = 16, side: int = 3, chunk: int = 8, stride: int = 1, groups: int = 1
) -> tvm.IRModule:
    """Return two blocks: one gives halves, the other sums a window of all channels of them."""
    chunks = channels // chunk
    p = var("p", 1, chunks, 9, 11, chunk)
    q = var("q", 1, chunks, 9, 11, chunk, dtype=HALF)
    w = var("w", 2, chunks // groups, side, side, chunk, 8)
    first = relay.cast(relay.clip(p, 0, 6.0), HALF)
    made = relay.nn.contrib_conv2d_nchwc(
        relay.cast(q, "float32"), w, (stride, stride), (side // 2,) * 4, (1, 1), groups, 16,
        (side, side), f"NCHW{chunk}c", f"OIHW{chunk}i8o", "NCHW8c",
    )  # fmt: skip
    weights = np.full([int(each) for each in w.type_annotation.shape], 0.1, "float32")
    whole = block("b", [q, w], relay.cast(made, HALF))(
        block("a", [p], first)(var("x", 1, chunks, 9, 11, chunk)), relay.const(weights)
    )
    return module(whole)


def image(reads_twice: bool = False) -> tvm.IRModule:
    """Return a block that sums a window over an image of float32."""
    p, w = var("p", 1, 3, 9, 11, 1), var("w", 2, 3, 3, 3, 1, 8)
    made = relay.nn.contrib_conv2d_nchwc(
        p, w, (2, 2), (1,) * 4, (1, 1), 1, 16, (3, 3), "NCHW1c", "OIHW1i8o", "NCHW8c"
    )
    if reads_twice:
        made = made + relay.mean(p)
    weights = np.random.default_rng(0).standard_normal((2, 3, 3, 3, 1, 8)).astype("float32")
    data = var("x", 1, 3, 9, 11, 1)
    return module(block("a", [p, w], relay.cast(made, HALF))(data, relay.const(weights)))


def matrix(
    terms: int = 24, width: int = 16, scale: float = 0.1, bound: float | None = 6.0
) -> tvm.IRModule:
    """Return two blocks: one gives halves, the other a matrix product and what reduces its rows."""
    p, q = var("p", 5, terms), var("q", 5, terms, dtype=HALF)
    weights = np.random.default_rng(0).standard_normal((2, terms, width)) * scale
    w = var("w", *weights.shape)
    first = relay.cast(p if bound is None else relay.clip(p, -bound, bound), HALF)
    product = relay.nn.contrib_dense_pack(relay.cast(q, "float32"), w, weight_layout=f"NC{width}n")
    second = relay.cast(product - relay.mean(product, axis=-1, keepdims=True), HALF)
    data = block("a", [p], first)(var("x", 5, terms))
    return module(block("b", [q, w], second)(data, relay.const(weights.astype("float32"))))


def found_in(mod: tvm.IRModule, terms: int = TERMS) -> tuple[Any, np.ndarray] | None:
    """Return the marked block's function and its weights; None where no block is marked."""
    function = sum_in_halves(mod["main"], NEON, terms, terms)
    made = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    for call in filter(is_block_call, post_order(made.body)):
        if MARK in operator_names(call.op):
            return call.op, call.args[1].data.numpy()
    return None


def exponent_of(block_function: Any) -> int:
    """Return the power of two that sums are multiplied by."""
    for call in post_order(block_function.body):
        if isinstance(call, relay.Call) and call.op.name == "multiply":
            return int(np.log2(float(call.args[1].data.numpy())))
    return 0


@pytest.mark.parametrize(
    ("bound", "scale"), [(6.0, 0.1), (None, 0.1), (None, 1.0), (None, 30.0), (6.0, 2000.0)]
)
def test_no_finite_operand_makes_a_chain_infinite(bound: float | None, scale: float) -> None:
    weights = pointwise(scale)
    found = found_in(net(weights, bias_of(), bound))
    assert found is not None
    function, stored = found
    exponent = exponent_of(function)
    assert stored.dtype == HALF
    largest = LARGEST if bound is None else bound
    np.testing.assert_allclose(stored * 2.0**exponent, weights, rtol=2.0**-11, atol=2.0**-24)
    # The heaviest chains, of operands of the weights' signs: each step rounded to a half.
    rows = np.moveaxis(np.abs(stored.astype("float64")), -1, 1).reshape(CHANNELS, -1)
    chains = np.sort(rows, axis=1)[:, -TERMS:]
    sums = np.full(CHANNELS, 0 if exponent else 0.1)
    for term in chains.T:
        sums = (sums + largest * term).astype(HALF).astype("float64")
    assert np.isfinite(sums).all()
    # No digit more than that is given away.
    assert exponent == 0 or sums.max() > LARGEST / 4


def test_a_bound_keeps_the_weights_and_lets_the_bias_begin() -> None:
    function, _ = found_in(net(pointwise(), bias_of())) or pytest.fail("not marked")
    assert exponent_of(function) == 0
    marks = [
        call
        for call in post_order(function.body)
        if isinstance(call, relay.Call) and call.op.name == MARK
    ]
    assert [int(each.attrs[HALF_ADDEND]) for each in marks] == [1]


@pytest.mark.parametrize(
    "mod",
    [
        net(pointwise(3000.0), bias_of(), None),
        net(pointwise(chunk=4), np.zeros((1, 2, 1, 1, 4), "float32"), chunk=4),
        net(np.ones((2, 1, 5, 5, 1, 8), "float32"), bias_of(), taps=5),
    ],
    ids=["weights far beyond", "chunks of four", "too many taps"],
)
def test_what_stays_single(mod: tvm.IRModule) -> None:
    assert found_in(mod) is None


def test_a_window_that_keeps_channels_apart() -> None:
    weights = np.ones((2, 1, 3, 3, 1, 8), "float32")
    function, stored = found_in(net(weights, bias_of(), taps=3), 9) or pytest.fail("not marked")
    assert exponent_of(function) == 0
    np.testing.assert_array_equal(stored, weights)


@pytest.mark.parametrize(
    "mod",
    [window(), window(stride=2), window(side=1, stride=2), window(3, chunk=1, stride=2)],
    ids=["of all channels", "of steps", "of every other pixel", "over an image"],
)
def test_a_window_of_all_channels(mod: tvm.IRModule) -> None:
    function, stored = found_in(mod) or pytest.fail("not marked")
    assert exponent_of(function) == 0
    assert stored.dtype == HALF


@pytest.mark.parametrize(
    "mod",
    [window(5, chunk=1), window(groups=2), window(side=9), window(3, side=1, chunk=1)],
    ids=["no image", "groups", "too wide", "a pixel of an image"],
)
def test_a_window_without_a_kernel_stays_single(mod: tvm.IRModule) -> None:
    assert found_in(mod) is None


def test_an_image_of_float32_is_rounded_before() -> None:
    function = sum_in_halves(image()["main"], NEON, TERMS, TERMS)
    made = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
    rounds, sums = filter(is_block_call, post_order(made.body))
    assert [each.checked_type.dtype for each in made.params] == ["float32"]
    assert sorted(operator_names(rounds.op)) == ["cast", "maximum", "minimum"]
    assert rounds.checked_type.dtype == HALF
    assert sums.args[0].same_as(rounds)
    assert MARK in operator_names(sums.op)


def test_an_image_that_something_else_reads_stays_single() -> None:
    assert found_in(image(reads_twice=True)) is None


@pytest.mark.parametrize(
    ("scale", "bound", "exponent"), [(0.1, 6.0, 0), (0.1, None, 1), (30.0, None, 9)]
)
def test_a_matrix_product(scale: float, bound: float | None, exponent: int) -> None:
    found = found_in(matrix(scale=scale, bound=bound))
    assert found is not None
    function, stored = found
    assert exponent_of(function) == exponent
    chains = np.sort(np.abs(stored.astype("float64")), axis=1)[:, -TERMS:].sum(axis=1)
    assert chains.max() * (LARGEST if bound is None else bound) <= LARGEST
    # A chain begins with zero.
    assert not any(
        int(call.attrs[HALF_ADDEND])
        for call in post_order(function.body)
        if isinstance(call, relay.Call) and call.op.name == MARK
    )


@pytest.mark.parametrize(
    "mod",
    [matrix(width=12), matrix(terms=37), matrix(scale=3000.0, bound=None)],
    ids=["panels of vectors of floats", "a prime number of terms", "weights far beyond"],
)
def test_a_matrix_product_that_stays_single(mod: tvm.IRModule) -> None:
    assert found_in(mod) is None


@pytest.mark.parametrize("scale", [1e-6, 1.0, 60.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds(scale: float, seed: int) -> None:
    generator = np.random.default_rng(seed)
    for terms in (1, 9, 32):
        x, w = (generator.standard_normal((terms, 400)) for _ in range(2))
        # Operands that cancel, as well as those that all have one sign.
        x = np.abs(x) if seed % 2 else x
        x, w = (x * scale).astype(HALF).astype("float64"), w.astype(HALF).astype("float64")
        total = np.zeros(400)
        for each in x * w:
            total = (total + each).astype(HALF).astype("float64")
        error = np.abs(total - (x * w).sum(axis=0))
        bound = error_bound(terms, np.abs(x * w).sum(axis=0))
        assert (error <= bound).all()
