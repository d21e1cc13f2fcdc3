"""Joints and transpositions in pieces: which blocks, how they are cut, and their numbers."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from tvm import relay, tir

from tests.relay_modules import EXACT, TARGET, module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    as_block,
    assert_computes,
    assert_same_with_knobs,
    assert_scheduled,
    describe,
    unscheduled,
)
from tests.schedules.matching import why_not
from tvm_fusionx.lowering import lowering
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK
from tvm_fusionx.schedules.rows.moves import MOST_PIECES, MOST_TURNED, MOVES, pieces_of
from tvm_fusionx.schedules.rows.moves_kernel import Piece
from tvm_fusionx.tir.inline import inline_spatial

NAME = "moves"
LONG = MOST_TURNED + 1
Shape = list[tuple[tuple[int, ...], int, int]]
OTHER_TARGETS = (
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76",
    "llvm -mcpu=haswell",
    "llvm -mcpu=skylake-avx512",
)


def rows_of_planes(
    name: str, planes: int, size: tuple[int, int], numbers: int, first: int = 0
) -> relay.Expr:
    """Return planes from `first` on, of which each pixel is rows of so many numbers."""
    total, (height, width) = first + planes, size
    data = relay.strided_slice(var(name, 1, total, *size), [first], [total], axes=[1])
    pixels = relay.transpose(data, (0, 2, 3, 1))
    return relay.reshape(pixels, (1, height * width * planes // numbers, numbers))


def levels(numbers: int, planes: int, first: int = 0, dtype: str = "float32") -> relay.Expr:
    """Return the rows of planes of several sizes, joined, as a detector's heads are."""
    sizes = [(9, 8), (5, 4), (3, 3), (1, 2)]
    parts = [
        rows_of_planes(f"x{place}", planes, size, numbers, first)
        for place, size in enumerate(sizes)
    ]
    joined = relay.concatenate(parts, 1)
    return joined if dtype == "float32" else relay.cast(joined, dtype)


def frames(channels: int, size: tuple[int, int], number: int, window: int = 3) -> relay.Expr:
    """Return each of some frames with its neighbours as channels, in one chunk."""
    clip = relay.nn.pad(var("x", number, channels, *size), ((1, 1), (0, 0), (0, 0), (0, 0)))
    parts = [relay.strided_slice(clip, [step], [number + step], axes=[0]) for step in range(window)]
    return relay.layout_transform(relay.concatenate(parts, 1), "NCHW", f"NCHW{window * channels}c")


def places(rows: int, samples: int) -> relay.Expr:
    """Return where regions are sampled, columns and rows as planes, of corners and steps."""
    corners, steps = var("x", rows, 4) * relay.const(0.25), var("steps", samples)

    def along(side: int, shape: tuple[int, ...]) -> relay.Expr:
        low, high = (
            relay.strided_slice(corners, [at], [at + 1], axes=[1]) for at in (side, side + 2)
        )
        at = relay.reshape(low + (high - low) * steps, shape)
        square = relay.broadcast_to(at, (rows, samples, samples))
        return relay.reshape(square, (rows, samples, samples, 1))

    both = relay.concatenate([along(0, (rows, 1, samples)), along(1, (rows, samples, 1))], 3)
    joined = relay.reshape(both, (1, rows * samples, samples, 2))
    return relay.transpose(joined, (0, 3, 1, 2))


def _twice(body: relay.Expr) -> relay.Expr:
    return relay.Tuple([body, relay.transpose(body, (0, 2, 1))])


BLOCKS = {
    "levels of four numbers": levels(4, 12),
    "levels of one number": levels(1, 3),
    "some of the planes": levels(4, 12, 3),
    "levels as integers": levels(4, 12, dtype="int32"),
    "frames beside their neighbours": frames(3, (7, 9), 5),
    "two neighbours": frames(2, (5, 5), 4, 2),
    "places of samples": places(5, 7),
    "a picture's colours": relay.transpose(var("x", 2, 3, 11, 13), (0, 2, 3, 1)),
    "sixteen planes": relay.transpose(var("x", 2, 16, 5, 7), (0, 2, 3, 1)),
    "two rows turned": relay.transpose(var("x", 2, 37), (1, 0)),
    "shorter than any vector": relay.transpose(var("x", 3, 2), (1, 0)),
    "with arithmetic": relay.transpose(
        relay.sigmoid(var("x", 3, 5, 9) * var("g", 3, 1, 1)) + var("r", 1, 5, 9), (1, 2, 0)
    ),
    "with a residual of its own order": relay.transpose(var("x", 3, 64), (1, 0)) + var("r", 1, 3),
    "many pieces": relay.concatenate(
        [relay.transpose(var(f"x{n}", 2, 3 + n), (1, 0)) for n in range(MOST_PIECES)], 0
    ),
    "large enough for two cores": relay.transpose(var("x", 3, 160, 163), (1, 2, 0)),
    "planes of many channels": relay.transpose(var("x", 2, 21, 5, 7), (0, 2, 3, 1)),
    "many channels as planes": relay.transpose(var("x", 2, 5, 7, 21), (0, 3, 1, 2)),
    "chunks as planes": relay.layout_transform(var("x", 1, 3, 5, 7, 8), "NCHW8c", "NCHW"),
    "heads of keys": relay.transpose(var("x", 19, 3, 37), (1, 2, 0)),
    "a matrix with a factor and a bias": (
        relay.transpose(var("x", 33, 50)) * var("f", 33) + var("b", 50, 1)
    ),
    "a matrix of narrow rows": relay.transpose(var("x", 70, 5)),
    "a matrix of few rows": relay.transpose(var("x", LONG, 300)),
    "many channels of neighbours": frames(9, (4, 9), 4),
    "a large matrix": relay.transpose(var("x", 260, 250)),
    "a picture by pixels": relay.transpose(var("x", 2, 11, 13, 3), (0, 3, 1, 2)),
    "a picture of bytes": relay.transpose(
        relay.cast(var("x", 1, 9, 21, 3, dtype="uint8"), "float32") / relay.const(255.0),
        (0, 3, 1, 2),
    ),
    "a picture with means": (
        relay.transpose(var("x", 1, 5, 7, 3), (0, 3, 1, 2)) - var("mean", 3, 1, 1)
    )
    * var("scale", 1, 3, 5, 7),
    "two pictures by pixels": relay.concatenate(
        [relay.transpose(var(f"x{n}", 5, 7, 4), (2, 0, 1)) for n in range(2)], 0
    ),
    "space to depth": relay.nn.space_to_depth(var("x", 1, 3, 8, 18), 2),
    "depth to space": relay.nn.depth_to_space(var("x", 1, 12, 5, 7), 2),
    "halves": relay.transpose(var("x", 3, 40, dtype="float16")),
    "a picture of bytes in a border": relay.layout_transform(
        relay.nn.pad(var("x", 1, 3, 9, 13, dtype="int8"), ((0, 0), (0, 1), (1, 1), (1, 1)), 3),
        "NCHW",
        "NCHW4c",
    ),
    "bytes": relay.transpose(var("x", 40, 33, dtype="int8")),
    "rows with a scale each": relay.transpose(var("x", 33, 50))
    * relay.sqrt(relay.abs(var("f", 33))),
    "rows that are divided": relay.transpose(var("x", 33, 50)) / var("f", 33),
    "exponentials of rows": relay.exp(
        relay.transpose(var("x", 33, 50)) * relay.sqrt(relay.abs(var("f", 33)))
    ),
    "a norm's rows, and turned besides": _twice(
        (var("x", 1, 49, 32) - var("mean", 1, 49, 1)) * relay.rsqrt(relay.abs(var("f", 1, 49, 1)))
    ),
    "two outputs": relay.Tuple([relay.transpose(var("x", 19, 40)), relay.abs(var("y", 7, 40))]),
    "channels of a shuffle": relay.transpose(var("x", 4, 3, 8, 9), (0, 2, 3, 1)),
}


OF_ONE_OUTPUT = [case for case, body in BLOCKS.items() if not isinstance(body, relay.Tuple)]


@pytest.mark.parametrize("case", few_fast(BLOCKS, 4))
def test_a_block_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], NAME, EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("target", OTHER_TARGETS)
@pytest.mark.parametrize("case", ["levels of four numbers", "frames beside their neighbours"])
def test_other_cpus_get_a_kernel(target: str, case: str) -> None:
    resolved = resolve_target(target)
    with lowering(resolved) as log:
        relay.build(as_block(BLOCKS[case]), resolved)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [(NAME, None)]


SHAPES: dict[str, Shape] = {
    "levels of four numbers": [((), 72, 12), ((), 20, 12), ((), 9, 12), ((), 2, 12)],
    "levels of one number": [((), 72, 3), ((), 20, 3), ((), 9, 3), ((), 2, 3)],
    # The first and the last frame lack a neighbour.
    "frames beside their neighbours": [((), 63, 9), ((3,), 63, 9), ((), 63, 9)],
    "places of samples": [((5, 7), 7, 1), ((5, 7), 7, 1)],
    "a picture's colours": [((2,), 143, 3)],
}


@pytest.mark.parametrize("case", SHAPES)
def test_pieces_have_no_joint_and_no_more_axes_than_they_need(case: str) -> None:
    found = _pieces(BLOCKS[case])
    shapes = [(piece.extents, piece.length, len(piece.lanes)) for piece in found]
    assert shapes == SHAPES[case]


def _pieces(body: relay.Expr) -> list[Piece]:
    info = describe(body)
    inlined = inline_spatial(tir.Schedule(tvm.IRModule({"main": info.func})), info)
    (stage,) = inlined.stages.values()
    found = pieces_of(stage)
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize("knobs", [{"lanes": 4}, {"parallel_work": 1}, {"parallel_work": 1 << 30}])
@pytest.mark.parametrize("case", few_fast(OF_ONE_OUTPUT, 2))
def test_knobs_change_no_number(case: str, knobs: dict[str, int]) -> None:
    assert_same_with_knobs(BLOCKS[case], NAME, knobs)


def test_enough_work_is_shared() -> None:
    kinds = {}
    for case in ("a picture's colours", "large enough for two cores"):
        made = schedule(unscheduled(BLOCKS[case]), resolve_target(f"{TARGET} -num-cores=2"))
        kinds[case] = "T.parallel" in str(made.func)
    assert kinds == {"a picture's colours": False, "large enough for two cores": True}
    assert 2 * 3 * 11 * 13 < MIN_PARALLEL_WORK < 3 * 160 * 163


REFUSED = {
    "it does more than move data": (
        relay.sum(var("x", 5, 7, 3), axis=1),
        relay.Tuple([relay.transpose(var("x", 3, 40)), relay.sum(var("x", 3, 40), axis=1)]),
    ),
    "a stage of it has a loop nest of its own": (
        relay.broadcast_to(relay.tanh(relay.transpose(var("x", 3, 8, 1), (1, 0, 2))), (8, 3, 9)),
    ),
    "its rows are read as they are written": (
        relay.abs(var("x", 5, 7)),
        relay.concatenate([var("x", 5, 7), var("y", 5, 9)], 1),
        relay.nn.pad(var("x", 5, 7), ((1, 1), (2, 3))),
    ),
    "its rows or columns are shorter than any vector": (
        relay.transpose(relay.strided_slice(var("x", LONG, 4), [0, 0], [LONG, 3])),
    ),
    "its operands lie side by side along no axis": (
        relay.strided_slice(var("x", 1, 33), [0], [33], [2], axes=[1]),
    ),
    "it has more pieces than are worth code of their own": (
        relay.concatenate(
            [relay.transpose(var(f"x{n}", 2, 3 + n)) for n in range(MOST_PIECES + 1)], 0
        ),
    ),
    "it turns truth values": (relay.transpose(var("x", 3, 40, dtype="bool")),),
    "it reads where numbers tell it to": (
        relay.take(var("x", 3, 40), var("at", 5, dtype="int32"), axis=1),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_does_not_serve_has_a_reason(reason: str) -> None:
    for body in REFUSED[reason]:
        assert why_not(MOVES, describe(body)) == reason


@st.composite
def _moved(draw: st.DrawFn) -> relay.Expr:
    """Draw a few tensors that are moved, joined and moved again."""
    rank = draw(st.integers(2, 4))
    shape = draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank))
    joined = draw(st.integers(0, rank - 1))
    parts = []
    for place in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(rank)))
        own = list(shape)
        own[joined] = draw(st.sampled_from([1, 1, 2, 3, 5]))
        taken = [0] * rank
        for axis, target in enumerate(order):
            taken[target] = own[axis]
        part = relay.transpose(var(f"x{place}", *taken), order)
        parts.append(relay.negative(part) if draw(st.booleans()) else part)
    body = relay.concatenate(parts, joined) if len(parts) > 1 else parts[0]
    if draw(st.booleans()):
        width = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
        body = relay.nn.pad(body, tuple(zip(width[::2], width[1::2], strict=True)), 0.5)
    body = relay.transpose(body, draw(st.permutations(range(rank))))
    total = int(np.prod([int(size) for size in module(body)["main"].ret_type.shape]))
    return relay.reshape(body, draw(st.sampled_from([(total,), (1, total), (total, 1)])))


def test_a_part_one_place_wide_is_written_where_it_belongs() -> None:
    narrow = relay.expand_dims(relay.transpose(var("x", 40, 3)), 2)
    wide = relay.transpose(var("y", 5, 3, 40), (1, 2, 0))
    _assert_moved(relay.concatenate([narrow, wide], 2))


@settings(max_examples=25)
@given(body=_moved())
def test_what_is_moved_anyhow_arrives(body: relay.Expr) -> None:
    _assert_moved(body)


def _assert_moved(body: relay.Expr) -> None:
    func, target = unscheduled(body), resolve_target(TARGET)
    made = schedule(func, target)
    assert_computes(made.func, target, module(body), EXACT)
