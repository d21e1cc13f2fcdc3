"""Weights that are fetched ahead: all of the next panel, before it is read, and nothing else."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relay, tir

from tests.relay_modules import TARGET, module, var
from tests.schedules.blocked_blocks import assert_computes, dense, unscheduled
from tests.schedules.matrix_blocks import layer_norm, packed_dense
from tvm_fusionx.processors.rates import LINE_BYTES
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.parts.fetch_ahead import (
    MOST_PIECE_VECTORS,
    MOST_TILES,
    VECTORS_A_LINE,
    Pauses,
    pauses_in,
)

AVX2 = "llvm -mcpu=znver3 -num-cores=2"
LINE = LINE_BYTES // 4
# 24 columns of 96 terms: 16 rows are four tiles, each in two pieces.
PRODUCT = packed_dense(16, 96, 96, 24)
BLOCKS = {
    "dense layer": (PRODUCT, "dot"),
    "dense layer before a norm": (layer_norm(packed_dense(32, 384, 512, 24), 384), "dot"),
    "convolution": (dense(64, (7, 7), 64, (3, 3), padding=(1, 1, 1, 1)), "conv2d"),
    "strided convolution": (dense(256, (8, 8), 64, (1, 1), strides=(2, 2)), "conv2d"),
    "pointwise convolution": (dense(256, (7, 7), 128, (1, 1)), "pointwise"),
}


@given(
    steps=st.integers(1, 4096),
    vectors=st.integers(1, 4096),
    panel_bytes=st.integers(64, 1 << 22),
    tiles=st.integers(1, 200),
)
def test_pauses_bring_the_whole_panel(
    steps: int, vectors: int, panel_bytes: int, tiles: int
) -> None:
    pauses = pauses_in(steps, vectors, panel_bytes, tiles)
    if pauses is None:
        return
    assert 1 < tiles <= MOST_TILES
    number, rest = divmod(steps, pauses.steps)
    assert rest == 0
    assert number * tiles * pauses.lines * LINE_BYTES >= panel_bytes
    # No faster than memory brings them, and neither all the time nor hardly ever.
    assert pauses.lines * VECTORS_A_LINE <= pauses.steps * vectors
    assert pauses.steps * vectors <= max(MOST_PIECE_VECTORS, vectors)


@pytest.mark.parametrize(
    ("steps", "vectors", "panel_bytes", "tiles"),
    [(768, 12, 73728, 1), (768, 12, 73728, MOST_TILES + 1), (768, 12, 1 << 22, 2), (509, 1, 99, 9)],
    ids=["one tile", "many tiles", "faster than memory", "a prime number of steps"],
)
def test_no_pause_without_a_gain(steps: int, vectors: int, panel_bytes: int, tiles: int) -> None:
    assert pauses_in(steps, vectors, panel_bytes, tiles) is None


def test_pauses_of_a_dense_layer_of_bert() -> None:
    pauses = pauses_in(3072, 12, 3072 * 24 * 4, 32)
    assert pauses is not None
    assert (pauses.steps, pauses.lines) == (48, 3)


def test_pieces_that_would_be_written_out_stay_loops() -> None:
    # 25 chunks of 8 channels, 25 sums: five at a time would be 1,000 vectors without a jump.
    assert pauses_in(25, 200, 64000, 20) is None
    assert pauses_in(24, 200, 64000, 20) == Pauses(8, 17)
    # Fewer sums have registers to spare.
    assert pauses_in(24, 96, 24000, 20) == Pauses(6, 5)


def _scheduled(case: str) -> Any:
    body, template = BLOCKS[case]
    target = resolve_target(AVX2)
    made = schedule(unscheduled(body, target), target, template=template)
    assert (made.template, made.fallback_reason) == (template, None)
    return made.func


def _fetches(func: Any) -> list[tuple[Any, list[Any]]]:
    """Return the element whose line each fetch brings, and the loops around it."""
    found: list[tuple[Any, list[Any]]] = []
    around: list[Any] = []

    def enter(node: Any) -> None:
        if isinstance(node, tir.For):
            around.append(node)
        elif node.op.name == "tir.address_of":
            found.append((node.args[0], list(around)))

    def leave(node: Any) -> None:
        if isinstance(node, tir.For):
            around.pop()

    tir.stmt_functor.ir_transform(func.body, enter, leave, ["tir.For", "tir.Call"])
    return found


def _lines(func: Any) -> dict[tuple[int, ...], set[int]]:
    """Return the lines that are fetched while the loops over panels have each of their values."""
    fetches = _fetches(func)
    assert fetches
    analyzer, lines = tvm.arith.Analyzer(), dict[tuple[int, ...], set[int]]()
    for load, loops in fetches:
        (index,) = load.indices
        used = [loop for loop in loops if int(loop.extent) > 1]
        once = {loop.loop_var: tir.const(0, loop.loop_var.dtype) for loop in loops}
        for values in itertools.product(*(range(int(loop.extent)) for loop in used)):
            at = once | {
                loop.loop_var: tir.const(value, loop.loop_var.dtype)
                for loop, value in zip(used, values, strict=True)
            }
            element = int(analyzer.simplify(tir.stmt_functor.substitute(index, at)))
            lines.setdefault(values, set()).add(element // LINE)
    return lines


@pytest.mark.parametrize("case", BLOCKS)
def test_every_line_but_the_first_panel_is_fetched(case: str) -> None:
    func = _scheduled(case)
    load, _ = _fetches(func)[0]
    total = math.prod(int(extent) for extent in load.buffer.shape)
    lines = set().union(*_lines(func).values())
    assert all(0 <= line < total // LINE for line in lines)
    panel = min(lines)
    # What no panel comes before is read as it is needed.
    assert 0 < panel <= total // LINE // 2
    assert lines == set(range(panel, total // LINE))


def test_a_panel_is_fetched_while_the_one_before_it_is_multiplied() -> None:
    panel = 96 * 24 // LINE
    lines = _lines(_scheduled("dense layer"))
    for (task, _, _), found in lines.items():
        following = min(task + 1, 3)
        first = following * panel
        # The last panel fetches its own last lines again.
        within = {line for line in found if first <= line < first + panel}
        assert within == found


def test_each_part_of_a_sum_fetches_its_part_of_the_next_panel() -> None:
    target = resolve_target(AVX2)
    func = unscheduled(packed_dense(16, 96, 1024, 24), target)
    made = schedule(func, target, {"sum_parts": 2}, "dot")
    panel, part = 1024 * 24 // LINE, 512 * 24 // LINE
    fetched = _lines(made.func)
    assert {(group, of) for group, of, *_ in fetched} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    for (group, of, at, *_), lines in fetched.items():
        # After the last panel comes nothing, and the last lines are fetched again.
        first = (group * 2 + at + 1) * panel + of * part
        assert lines <= set(range(first, first + part)) or (group, at) == (1, 1)
    whole = {line for (group, *_), lines in fetched.items() if group == 0 for line in lines}
    assert set(range(panel, 3 * panel)) == whole


@pytest.mark.parametrize("case", BLOCKS)
def test_numbers_stay(case: str) -> None:
    body, _ = BLOCKS[case]
    target = resolve_target(TARGET)
    made = schedule(unscheduled(body, target), target)
    assert_computes(made.func, target, module(body))


@pytest.mark.parametrize(
    "body",
    [packed_dense(4, 96, 96, 24), packed_dense(16, 24, 40, 24), packed_dense(4096, 96, 96, 24)],
    ids=["one tile of rows", "a short sum", "many rows"],
)
def test_what_would_not_pay_is_left_as_it_is(body: Any) -> None:
    target = resolve_target(AVX2)
    made = schedule(unscheduled(body, target), target, template="dot")
    assert not _fetches(made.func)


def test_weights_that_the_kernel_packs_itself_are_not_fetched() -> None:
    images, weights = var("x", 8, 256, 8, 8), var("w", 256, 128, 4, 4)
    choices = {"strides": (2, 2), "padding": (1, 1, 1, 1)}
    body = relay.nn.conv2d_transpose(images, weights, channels=128, kernel_size=(4, 4), **choices)
    scheduled = schedule(unscheduled(body), resolve_target(AVX2))
    assert scheduled.template == "conv2d"
    assert "llvm.prefetch" not in str(tvm.lower(scheduled.func))
