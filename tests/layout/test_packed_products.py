"""Weights of integers stay packed where reading them takes the time: numbers, cost, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import REASSOCIATING, assert_close, graph, module, var
from tests.schedules.blocked_blocks import AVX512, NEON
from tvm_fusionx.ecg import to_relay
from tvm_fusionx.layout.packed_products import (
    PackedWeight,
    float_cycles,
    in_blocks,
    pack_products,
    packed_cycles,
)
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.rewrite.dequantized_constants import KnownIntegers

# Weights pass no cache: every product of one row waits for memory.
SMALL = {"l2_bytes": 1, "llc_slice_bytes": 1}
N, K, BLOCK = 32, 64, 32

# The levels' dtype and bounds, the zero points' bounds, and what is expected of the packed weight.
KINDS = {
    "int4": ("int8", (-8, 8), (0, 1), "uint8", False),
    "uint4, zero 8": ("uint8", (0, 16), (8, 9), "uint8", False),
    "uint4": ("uint8", (0, 16), (0, 16), "uint8", True),
    "int8": ("int8", (-128, 128), (0, 1), "int8", False),
    "uint8": ("uint8", (0, 256), (0, 256), "int8", True),
}


def _drawn(kind: str, size: int = BLOCK) -> KnownIntegers:
    dtype, levels, zeros, *_ = KINDS[kind]
    draw = np.random.default_rng(0)
    integers = draw.integers(*levels, (N, K)).astype(dtype)
    # Both ends, so that each kind needs all of its bits.
    integers[0, :2] = levels[0], levels[1] - 1
    shared = (N, K // size)
    scales = draw.uniform(0.1, 1, shared).astype("float32")
    points = draw.integers(*zeros, shared)
    wide = [np.repeat(part, size, axis=1) for part in (scales, points)]
    return KnownIntegers(integers.astype("int16"), wide[0], wide[1].astype("int16"))


def _meaning(known: KnownIntegers) -> Any:
    return (known.integers - known.zeros).astype("float32") * known.scales


def _product(kind: str, rows: int, turn: bool = False) -> relay.Expr:
    known = _drawn(kind)
    levels = known.integers.astype(KINDS[kind][0]).reshape(-1, BLOCK)
    scale, zero = (part.reshape(-1, BLOCK)[:, 0] for part in (known.scales, known.zeros))
    numbers = relay.qnn.op.dequantize(
        relay.const(levels), relay.const(scale), relay.const(zero.astype("int32")), axis=0
    )
    weights = relay.reshape(numbers, (N, K))
    if turn:
        weights = relay.transpose(relay.transpose(weights, (1, 0)), (1, 0))
    return relay.nn.dense(var("x", rows, K), weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [16, BLOCK, K])
def test_a_packed_weight_means_the_same(kind: str, size: int) -> None:
    known = _drawn(kind, size)
    packed = in_blocks(known)
    assert isinstance(packed, PackedWeight)
    assert (str(packed.levels.dtype), packed.minima is not None) == KINDS[kind][3:]
    assert packed.scales.shape == (N, K // size)
    levels = packed.levels.astype("int32")
    if packed.levels.dtype == np.uint8:
        levels = np.concatenate([levels & 15, levels >> 4], axis=-1)
        levels = levels if packed.minima is not None else levels - 8
    numbers = levels * packed.scales[..., None]
    numbers = numbers if packed.minima is None else numbers + packed.minima[..., None]
    np.testing.assert_allclose(numbers.reshape(N, K), _meaning(known), rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_products_with_packed_weights(kind: str) -> None:
    changed = graph(_product(kind, 1, turn=kind == "int4"))
    assert pack_products(changed, replace(AVX512, **SMALL)) == 1
    (call,) = changed.calls()
    assert call.op.startswith("fusionx.block_dense")
    x = np.random.default_rng(1).standard_normal((1, K)).astype("float32")
    found = run_once(fx.build(module(to_relay(changed).body), "llvm"), {"x": x})
    assert_close(found, [x @ _meaning(_drawn(kind)).T], REASSOCIATING)


def test_scales_that_belong_to_no_block_of_inputs_are_told() -> None:
    known = _drawn("int4")
    scales = np.random.default_rng(2).uniform(0.1, 1, (N, K)).astype("float32")
    reason = in_blocks(replace(known, scales=scales))
    assert reason == "its scales do not belong to blocks of inputs"


@pytest.mark.parametrize(
    ("rows", "outputs", "reason"),
    [(1, 6, "its 6 outputs fill no panels"), (512, N, "with 512 rows a weight takes")],
)
def test_what_stays_floats_says_why(
    rows: int, outputs: int, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    levels = relay.const(np.ones((outputs, K), "int8"))
    weights = relay.qnn.op.dequantize(levels, relay.const(0.5), relay.const(0))
    unchanged = graph(relay.nn.dense(var("x", rows, K), weights))
    with caplog.at_level("DEBUG"):
        assert pack_products(unchanged, replace(AVX512, **SMALL)) == 0
    assert reason in caplog.text


def test_products_of_floats_are_left_alone() -> None:
    weights = relay.const(np.ones((N, K), "float32"))
    assert pack_products(graph(relay.nn.dense(var("x", 1, K), weights)), AVX512) == 0


@pytest.mark.parametrize("cpu", [AVX512, NEON], ids=["AVX512", "NEON"])
def test_packed_weights_win_where_memory_decides(cpu: Any) -> None:
    many = 1 << 30
    four_bits, rows = 0.5 + 4 / BLOCK, (1, 2, 4, 8, 512)
    ratios = [
        packed_cycles(each, 4096, four_bits, many, cpu) / float_cycles(each, many, cpu)
        for each in rows
    ]
    # A token reads an eighth and unpacks beside it; a long prompt multiplies.
    assert ratios[0] < 0.7
    assert ratios[-1] > 1
    # Of weights that a cache holds nothing is gained by reading less.
    assert packed_cycles(1, 4096, four_bits, 4096, cpu) > float_cycles(1, 4096, cpu)
