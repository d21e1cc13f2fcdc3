"""Neighbouring vectors of a register tile are loaded three or four at once on AArch64."""

from __future__ import annotations

import re
from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING
from tvm_fusionx.late_passes.index_lanes import index_lanes
from tvm_fusionx.late_passes.load_together import load_together
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target

LANES = 4
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"
MANY = re.compile(r"\bld1\s+\{(.*?)\}")


def _tile(rows: int, vectors: int, terms: int = 16, scope: str = "local") -> Any:
    """Return a function that sums products of `rows` by `vectors` vectors, as a kernel does."""
    a = tir.decl_buffer((rows * terms,), "float32", "a")
    w = tir.decl_buffer((terms * vectors * LANES,), "float32", "w")
    y = tir.decl_buffer((rows * vectors * LANES,), "float32", "y")
    ib = tir.ir_builder.create()
    places = range(rows * vectors)
    kept = ib.allocate("float32", (len(places) * LANES,), "sums", scope="local")._buffer
    sums = kept if scope == "local" else y

    def at(start: Any) -> Any:
        return tir.Ramp(start, 1, LANES)

    for place in places:
        zero = tir.Broadcast(tir.const(0, "float32"), LANES)
        ib.emit(tir.BufferStore(sums, zero, [at(place * LANES)]))
    with (
        ib.for_range(0, terms // LANES, "chunk") as chunk,
        ib.for_range(0, LANES, "term") as term,
    ):
        for place in places:
            row, vector = divmod(place, vectors)
            element = tir.BufferLoad(a, [(chunk * rows + row) * LANES + term])
            weight = tir.BufferLoad(w, [at(((chunk * LANES + term) * vectors + vector) * LANES)])
            total = tir.BufferLoad(sums, [at(place * LANES)])
            added = total + tir.Broadcast(element, LANES) * weight
            ib.emit(tir.BufferStore(sums, added, [at(place * LANES)]))
    if scope == "local":
        for place in places:
            ib.emit(
                tir.BufferStore(y, tir.BufferLoad(sums, [at(place * LANES)]), [at(place * LANES)])
            )
    return tir.PrimFunc([a, w, y], ib.get())


def _lowered(func: Any) -> str:
    passes = [(AFTER_LOWERING, index_lanes(LANES)), (AFTER_LOWERING, load_together())]
    with tvm.transform.PassContext(opt_level=3, config={ADD_LOWER_PASS: passes}):
        return str(tvm.lower(func)["main"])


def _loaded(func: Any, target: str = ARM) -> list[int]:
    """Return how many vectors each instruction loads that loads more than a pair."""
    code = compile_kernel(func, resolve_target(target), "tile").get_source("asm")
    return [found.count("v") for found in MANY.findall(code)]


@pytest.mark.parametrize(
    ("rows", "vectors", "expected"),
    [
        # Two turns of four terms: weights of each term, and elements of each row once a turn.
        (4, 4, {4: 10}),
        (6, 3, {3: 12}),
        # Weights of two terms together, and eight rows.
        (8, 2, {4: 8}),
        # Five rows are three and a pair.
        (5, 4, {3: 2, 4: 8}),
    ],
)
def test_neighbours_are_loaded_at_once(rows: int, vectors: int, expected: dict[int, int]) -> None:
    loaded = _loaded(_tile(rows, vectors))
    assert {each: loaded.count(each) for each in {*loaded}} == expected


def test_other_processors_load_as_before() -> None:
    armv7 = "llvm -mtriple=armv7a-linux-gnueabihf -mcpu=cortex-a9 -mattr=+neon"
    assert _loaded(_tile(4, 4), armv7) == []


def test_a_tile_that_fills_the_registers_stays() -> None:
    assert "fusionx_load" not in _lowered(_tile(9, 3))


def test_what_is_stored_to_memory_stays() -> None:
    assert "fusionx_load" not in _lowered(_tile(4, 4, scope="global"))


def test_loads_come_behind_the_sums_before_them() -> None:
    text = _lowered(_tile(4, 4))
    # The first loads wait for nothing, all others for what was summed up since the last.
    assert text.count("fusionx_load_together_4") == 10
    assert 'fusionx_load_after_16"' in text
