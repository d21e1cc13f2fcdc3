"""Products of bytes on tiles: the numbers are exact, and what stays on vectors says why."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import describe, unscheduled
from tests.schedules.byte_blocks import (
    TILES,
    dense_of_bytes,
    needs_tiles,
    scaled,
    scaled_numbers,
    window_of_bytes,
)
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.matrix_blocks import layer_norm
from tests.verified_kernels import assert_kernel
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.byte_tiles.template import BYTE_TILES

CPU = describe_cpu(resolve_target(TILES))
EXACT = 0.0

BLOCKS: dict[str, tuple[Any, ...]] = {
    "whole tiles": dense_of_bytes(64, 64, 128),
    "signed data": dense_of_bytes(32, 64, 128, data="int8"),
    "rows of no whole tile": dense_of_bytes(45, 48, 96, width=48),
    "few rows, an odd number of tiles": dense_of_bytes(9, 80, 192),
    "an odd number of rows that two tiles hold": dense_of_bytes(19, 64, 128),
    "panels of four tiles": dense_of_bytes(33, 128, 104, width=64),
    "one pixel": window_of_bytes(64, (9, 11), 64, 1),
    "one pixel of several, two images": window_of_bytes(256, (9, 7), 64, 1, stride=2, batch=2),
    "three by three": window_of_bytes(64, (9, 11), 32, 3),
    "wide rows, an odd number of tiles": window_of_bytes(32, (5, 37), 48, 3),
    "an odd width that two tiles hold": window_of_bytes(64, (6, 19), 32, 3),
    "three by three of stride 2": window_of_bytes(64, (11, 9), 64, 3, stride=2),
    "dilated": window_of_bytes(64, (9, 9), 32, 3, dilation=2),
    "short rows as one": window_of_bytes(512, (7, 7), 32, 3),
    "short rows of stride 2 as one": window_of_bytes(256, (9, 5), 32, 3, stride=2),
    "crowded rows": window_of_bytes(256, (14, 14), 64, 3),
    "one chunk, read where it lies": window_of_bytes(16, (12, 40), 32, 2),
    "joined columns": window_of_bytes(16, (9, 21), 32, 3),
    "joined columns of stride 2": window_of_bytes(32, (10, 21), 32, 5, stride=2),
}


@needs_tiles
@pytest.mark.parametrize("name", few_fast(BLOCKS, 4))
def test_numbers(name: str) -> None:
    body, inputs, sums = BLOCKS[name]
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    assert_kernel(made.func, target, inputs, [scaled_numbers(sums)], EXACT)


@needs_tiles
@pytest.mark.parametrize("columns", [64, 72])
def test_columns_that_were_padded_are_cut_off_whole_vectors(columns: int) -> None:
    def cut(product: Any) -> Any:
        ends = [37, columns]
        return scaled(relay.strided_slice(product, [0, 0], ends, [1, 1], slice_mode="end"))

    body, inputs, sums = dense_of_bytes(37, columns, 128, width=48, post=cut)
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    assert "T.vectorized(16)" in made.func.script()
    assert_kernel(made.func, target, inputs, [scaled_numbers(sums)], EXACT)


@needs_tiles
def test_a_residual_in_bytes_is_read_where_it_is_added() -> None:
    """Nothing between the product and the bytes is stored."""
    scale = relay.const(np.float32(2.0**-9))

    def added(y: Any) -> Any:
        other = relay.cast(var("other", 48, 64, dtype="uint8"), "float32") * scale
        real = relay.cast(y, "float32") * scale + other
        return relay.cast(relay.clip(relay.round(real), 0, 255), "uint8")

    body, inputs, sums = dense_of_bytes(48, 64, 128, post=added)
    other = np.random.default_rng(1).integers(0, 256, (48, 64)).astype("uint8")
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    assert not made.func.body.block.alloc_buffers
    expected = scaled_numbers(sums + other.astype("int32"))
    assert_kernel(made.func, target, [*inputs, other], [expected], EXACT)


@needs_tiles
def test_two_results() -> None:
    def both(y: Any) -> Any:
        real = relay.cast(y, "float32") * relay.const(np.float32(2.0**-9))
        return relay.Tuple([real, scaled(y)])

    body, inputs, sums = dense_of_bytes(20, 64, 128, post=both)
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    expected = [(sums / 512).astype("float32"), scaled_numbers(sums)]
    assert_kernel(made.func, target, inputs, expected, EXACT)


@needs_tiles
def test_norms_have_loops_of_their_own() -> None:
    def normed(y: Any) -> Any:
        real = relay.cast(y, "float32") * relay.const(np.float32(2.0**-9))
        return layer_norm(real + var("residual", 20, 64), 64)

    body, inputs, sums = dense_of_bytes(20, 64, 128, post=normed)
    residual, gamma, beta = (
        np.random.default_rng(1).standard_normal(shape).astype("float32")
        for shape in ((20, 64), 64, 64)
    )
    real = sums.astype("float64") / 512 + residual
    centred = real - real.mean(-1, keepdims=True)
    norm = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    expected = (norm * gamma + beta).astype("float32")
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    assert_kernel(made.func, target, [*inputs, residual, gamma, beta], [expected], 1e-5)


@pytest.mark.parametrize(
    ("block", "product"), [("whole tiles", "tdpbusd"), ("signed data", "tdpbssd")]
)
def test_code(block: str, product: str) -> None:
    """Two by two tiles: as many products as loads, and nothing of tiles is spilt."""
    target = resolve_target(TILES)
    func = schedule(unscheduled(BLOCKS[block][0], target), target).func
    text = compile_kernel(func, target, "kernel").get_source("asm")

    def count(word: str) -> int:
        return len(re.findall(rf"\b{word}\b", text))

    assert count(product) == count("tileloadd") > 0
    # LLVM may write out two blocks.
    assert count("tilestored") in (4, 8)
    assert (count("ldtilecfg"), count("tilerelease")) == (1, 1)
    assert count("vpdpbusd") == 0


def test_targets_without_tiles_never_see_them() -> None:
    body = BLOCKS["whole tiles"][0]
    for text in ("llvm -mcpu=cascadelake", f"{TILES} -mattr=-amx-int8"):
        target = resolve_target(text)
        assert schedule(unscheduled(body, target), target).template == "dot"


def test_weights_in_the_order_of_tiles_serve_vectors_too() -> None:
    """A convolution whose weights have one chunk of inputs, where another template has it."""
    body, inputs, sums = BLOCKS["three by three"]
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    if describe_cpu(target).dot is None:
        pytest.skip("this processor has no instruction for bytes")
    made = schedule(unscheduled(body, target), target, template="conv2d")
    assert made.template == "conv2d"
    assert_kernel(made.func, target, inputs, [scaled_numbers(sums)], EXACT)


def test_knobs() -> None:
    knobs = knobs_of(BYTE_TILES, describe(BLOCKS["whole tiles"][0], CPU))
    assert {name: knob.default for name, knob in knobs.items()} == {
        "task_rows": 1,
        "task_columns": 64,
        "channel_tasks": 2,
    }


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (dense_of_bytes(1, 64, 128)[0], "its reduction has not the axes"),
        (dense_of_bytes(2, 64, 128)[0], "on vectors"),
        (dense_of_bytes(64, 64, 128, width=8)[0], "its panels of 8 columns are no whole tiles"),
        (window_of_bytes(64, (9, 11), 32, 3, in_tiles=False)[0], "not in the order of tiles"),
        (dense_of_bytes(64, 64, 128, data="int16")[0], "no instruction multiplies"),
        (relay.nn.relu(var("x", 8, 8)), "it has not one product"),
    ],
)
def test_refusals(body: Any, why: str) -> None:
    assert why in str(why_not(BYTE_TILES, describe(body, CPU)))


def test_a_processor_without_tiles_is_refused() -> None:
    info = describe(BLOCKS["whole tiles"][0], replace(CPU, tiles=None))
    assert "no registers for tiles" in str(why_not(BYTE_TILES, info))
