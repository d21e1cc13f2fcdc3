"""Indices that hide that neighbours lie side by side, and tests that the axes decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tvm_fusionx.tir.flat_access import (
    accesses_of,
    cases_of,
    conditions_of,
    decided,
    flat_place,
    step_of,
    with_flat_access,
)

PIXEL, CHANNEL = tir.Var("pixel", "int32"), tir.Var("channel", "int32")
IMAGE = tir.decl_buffer((3, 4, 6), "float32", "image")


def at(pixel: Any, channel: Any) -> list[Any]:
    return [channel, tir.floordiv(pixel, 6), tir.floormod(pixel, 6)]


def test_row_and_column_of_a_pixel_are_the_pixel() -> None:
    load = tir.BufferLoad(IMAGE, at(PIXEL, CHANNEL))
    place = tvm.arith.Analyzer().simplify(flat_place(load) - (CHANNEL * 24 + PIXEL))
    assert place == 0


@pytest.mark.parametrize(
    ("indices", "step"),
    [
        (at(PIXEL, CHANNEL), 1),
        (at(PIXEL + 5, 2), 1),
        ([CHANNEL, PIXEL, 0], 6),
        ([CHANNEL, 1, 2], 0),
        ([CHANNEL, 0, tir.floordiv(PIXEL, 2)], None),
    ],
)
def test_how_far_an_access_moves(indices: list[Any], step: int | None) -> None:
    assert step_of(tir.BufferLoad(IMAGE, indices), PIXEL) == step


def test_vectors_of_pixels_are_stored() -> None:
    given = tir.decl_buffer((3, 24), "float32", "given")
    ib = tir.ir_builder.create()
    lane = tir.Var("lane", "int32")
    with ib.for_range(0, 3, "channel") as channel, ib.for_range(0, 3, "part") as part:
        pixel = part * 8 + lane
        value = tir.BufferLoad(given, [channel, pixel]) * tir.const(2, "float32")
        stmt = with_flat_access(tir.BufferStore(IMAGE, value, at(pixel, channel)), lane)
        assert all(step_of(each, lane) == 1 for each in accesses_of(stmt))
        ib.emit(tir.For(lane, 0, 8, tir.ForKind.VECTORIZED, stmt))
    built = tvm.build(tir.PrimFunc([given, IMAGE], ib.get()), "llvm -mcpu=haswell")
    assert "<8 x float>" in built.get_source()
    data = np.random.default_rng(0).standard_normal((3, 24), dtype="float32")
    found = tvm.nd.empty((3, 4, 6))
    built(tvm.nd.array(data), found)
    assert_close([found.numpy()], [2 * data.reshape(3, 4, 6)], EXACT)


def test_what_does_not_move_stays() -> None:
    other = tir.decl_buffer((3, 4), "float32", "other")
    fixed = tir.BufferLoad(other, [CHANNEL, 1])
    stmt = tir.BufferStore(IMAGE, fixed, at(PIXEL, CHANNEL))
    found = with_flat_access(stmt, PIXEL)
    assert tvm.ir.structural_equal(found.value, fixed)
    assert len(found.indices) == 1


def test_idle_tests_are_gone_and_others_found() -> None:
    axis = tir.IterVar(tvm.ir.Range(0, 24), PIXEL, tir.IterVar.DataPar)
    load = tir.BufferLoad(IMAGE, at(PIXEL, 0))
    zero = tir.const(0, "float32")
    idle = tir.if_then_else(PIXEL < 24, load, zero)
    needed = tir.if_then_else(PIXEL < 20, load, zero)
    chosen = tir.Select(PIXEL > 3, load, zero)
    bodies = [tir.BufferStore(IMAGE, each, at(PIXEL, 1)) for each in (idle, needed, chosen)]
    blocks = [decided(tir.Block([axis], [], [], "block", body)) for body in bodies]
    assert [len(conditions_of(block.body)) for block in blocks] == [0, 1, 1]


def test_a_tested_store_is_decided_too() -> None:
    axis = tir.IterVar(tvm.ir.Range(0, 24), PIXEL, tir.IterVar.DataPar)
    store = tir.BufferStore(IMAGE, tir.BufferLoad(IMAGE, at(PIXEL, 0)), at(PIXEL, 1))
    bodies = [tir.IfThenElse(bound > PIXEL, store, None) for bound in (24, 20)]
    blocks = [decided(tir.Block([axis], [], [], "block", body)) for body in bodies]
    assert isinstance(blocks[0].body, tir.BufferStore)
    assert [len(conditions_of(block.body)) for block in blocks] == [0, 1]


@pytest.mark.parametrize("choose", [tir.Select, tir.if_then_else])
def test_a_choice_has_two_cases(choose: Any) -> None:
    test = CHANNEL > 1
    found = cases_of(choose(test, PIXEL, CHANNEL))
    assert found is not None
    assert all(one.same_as(other) for one, other in zip(found, (test, PIXEL, CHANNEL), strict=True))
    assert cases_of(PIXEL + CHANNEL) is None
