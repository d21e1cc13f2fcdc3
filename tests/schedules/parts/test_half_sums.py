"""Products of halves are summed up in halves on Arm: within the bound, by the instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.devices.emulated_board import emulated_boards
from tests.relay_modules import inputs_of, module, var
from tests.sampled import few_fast
from tests.schedules.arm_board import Board
from tests.schedules.blocked_blocks import as_block, dense, depthwise, unscheduled
from tests.schedules.half_blocks import in_16_bits
from tests.schedules.matrix_blocks import packed_dense
from tests.schedules.sums_in_halves import HALF, summed_in_halves
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.layout.half_sums import error_bound
from tvm_fusionx.lowering import lowering
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.report.verify.exact import in_float64
from tvm_fusionx.report.verify.unoptimised import build_unoptimised
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.parts.half_sums import half_of
from tvm_fusionx.tir.half_terms import Mark

A76 = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1")
A53 = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53 -num-cores=1")
ONE, THREE = (1,) * 4, (3,) * 4
# Chunks of a picture's channels, and of eight.
IMAGE = (1, 8)
TERMS = 16


def _relu6(y: Any) -> Any:
    return relay.clip(y, 0, 6)


def _as_it_is(y: Any) -> Any:
    return y


def _pair(post: Any) -> relay.Expr:
    """Return pixels of a window's results, which a kernel keeps as halves."""
    weights = var("v", 2, 2, 1, 1, 8, 8)
    layout, order = "NCHW8c", "OIHW8i8o"
    return relay.nn.contrib_conv2d_nchwc(
        depthwise(16, (9, 10), (3, 3), padding=ONE, post=post),
        weights, (1, 1), (0,) * 4, (1, 1), 1, 16, (1, 1), layout, order, layout,
    )  # fmt: skip


# Body, whether the bias is a term of a chain, and the terms of the longest chain.
CASES = {
    "a window, bias and bounds": (
        lambda post: depthwise(16, (9, 10), (3, 3), padding=ONE, post=post), _relu6, True, 10
    ),
    "a window of steps": (
        lambda post: depthwise(16, (9, 11), (3, 3), padding=ONE, strides=(2, 2), post=post),
        _as_it_is, False, 9,
    ),
    "pixels, chains of two chunks": (
        lambda post: dense(32, (5, 7), 24, (1, 1), post=post), _as_it_is, False, TERMS
    ),
    "pixels of one chain, bounds": (
        lambda post: dense(16, (6, 7), 48, (1, 1), post=post), _relu6, True, TERMS + 1
    ),
    "pixels, chains of one chunk, bounds": (
        lambda post: dense(24, (6, 7), 48, (1, 1), post=post), _relu6, False, 8
    ),
    "pixels under a window, chains of two chunks": (
        lambda post: dense(32, (7, 9), 24, (3, 3), padding=ONE, post=post), _relu6, False, TERMS
    ),
    "pixels under a window of steps": (
        lambda post: dense(24, (9, 11), 16, (3, 3), padding=ONE, strides=(2, 2), post=post),
        _as_it_is, False, 8,
    ),
    "pixels, every other": (
        lambda post: dense(32, (9, 11), 24, (1, 1), strides=(2, 2), post=post),
        _as_it_is, False, TERMS,
    ),
    "an image's pixels, chains of a row": (
        lambda post: dense(3, (15, 19), 16, (3, 3), padding=ONE, strides=(2, 2), blocks=IMAGE,
                           post=post),
        _relu6, False, 9,
    ),
    "an image's pixels, chains of a channel": (
        lambda post: dense(3, (21, 23), 16, (7, 7), padding=THREE, strides=(2, 2), blocks=IMAGE,
                           post=post),
        _relu6, False, 7,
    ),
    "an image's pixels, one chain": (
        lambda post: dense(3, (14, 18), 16, (2, 2), strides=(2, 2), blocks=IMAGE, post=post),
        _relu6, True, 12 + 1,
    ),
    "rows of a matrix, chains of a third": (
        lambda post: post(packed_dense(16, 96, 48, width=24)), _relu6, False, TERMS
    ),
    "rows of a matrix of no whole tile": (
        lambda post: post(packed_dense(7, 48, 32, width=16)), _as_it_is, False, TERMS
    ),
    "one row of a matrix": (
        lambda post: post(packed_dense(1, 32, 64, width=16)), _as_it_is, False, TERMS
    ),
    # The window's chain, the rounding of its result, and a chain of the pixels.
    "a window and its pixels": (_pair, _relu6, True, 10 + 1 + TERMS),
}  # fmt: skip


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_boards() as emulation:
        board = Board(emulation.device, tmp_path_factory.mktemp("halves"))
        with board.bench:
            yield board


def _in_float64(body: relay.Expr) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    """Return what computes a float32 block in float64, by TVM's own kernels."""
    function = relay.transform.InferType()(module(body))["main"]
    names = [param.name_hint for param in function.params]
    library = build_unoptimised(in_float64(function), "llvm")

    def compute(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        given = {f"operand_{at}": inputs[name].astype("float64") for at, name in enumerate(names)}
        return run_once(library, given)[0]

    return compute


@pytest.mark.parametrize("name", few_fast(CASES, 1))
def test_sums_are_within_the_bound(board: Board, name: str) -> None:
    body_of, post, adds, terms = CASES[name]
    body = summed_in_halves(body_of(post), Mark(TERMS, adds))
    with lowering(A76) as log:
        library = relay.build(as_block(body), A76)
    assert [entry.fallback_reason for entry in log.entries] == [None]
    compute, add_up = _in_float64(body_of(post)), _in_float64(body_of(_as_it_is))
    generator = np.random.default_rng(0)
    shapes = {each: array.shape for each, array in inputs_of(module(body)).items()}
    # As they come; that cancel; near the largest half; near the smallest.
    for largest, is_positive in ((2.0, False), (2.0, True), (2000.0, False), (1e-6, False)):
        inputs = {}
        for each, shape in shapes.items():
            scale = largest if each == "x" else 1.0
            array = generator.uniform(0 if is_positive else -scale, scale, shape)
            inputs[each] = array.astype(HALF).astype("float32")
        (found,) = board.run(library, {each: array.astype(HALF) for each, array in inputs.items()})
        exact = compute(inputs)
        magnitude = add_up({each: np.abs(array) for each, array in inputs.items()})
        # Of each product in one chain; then the result is rounded, unless it was in a chain whole.
        allowed = error_bound(terms, magnitude) + 2.0**-11 * np.abs(exact) + 2.0**-24
        assert np.isfinite(found).all()
        assert (np.abs(found - exact) <= allowed).all()


@pytest.mark.parametrize("name", few_fast(CASES, 1))
def test_multiply_adds_are_of_eight_halves(name: str) -> None:
    body_of, post, adds, _ = CASES[name]
    body = summed_in_halves(body_of(post), Mark(TERMS, adds))
    with pass_context(A76, "flush"):
        code = tvm.build(schedule(unscheduled(body, A76), A76).func, target=A76).get_source("asm")
    products = [line for line in code.splitlines() if line.startswith("\tfmla")]
    assert products
    assert all("8h" in line for line in products)
    # Of pixels and rows each takes a lane, and none is widened before it is multiplied.
    by_lane = [".h[" in line for line in products]
    assert all(by_lane) or not name.startswith(("pixels", "rows"))
    assert any(by_lane) == ("pixels" in name or "row" in name)


def test_a_core_without_them_computes_in_float32() -> None:
    body_of, post, adds, _ = CASES["a window, bias and bounds"]
    marked = schedule(unscheduled(summed_in_halves(body_of(post), Mark(TERMS, adds)), A53), A53)
    plain = schedule(unscheduled(in_16_bits(body_of(post), HALF), A53), A53)
    tvm.ir.assert_structural_equal(marked.func, plain.func)


def test_what_is_widened_is_taken_as_halves() -> None:
    x = tvm.tir.decl_buffer((8,), "float32", "x")
    load = tvm.tir.BufferLoad(x, [0])
    assert half_of(tvm.tir.Broadcast(load, 8)).dtype == "float16x8"
    assert half_of(load).dtype == HALF


def test_a_core_adds_halves_where_it_multiplies_by_lane() -> None:
    plain = Cpu(lanes=4, registers=32, cores=1)
    assert not plain.adds_halves
    assert Cpu(4, 32, 1, multiplies_by_lane=True, compares_halves=True).adds_halves
