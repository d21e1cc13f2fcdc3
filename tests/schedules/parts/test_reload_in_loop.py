"""Sums that load their weights anew for every tile: where they are marked, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.parts.reload_in_loop import RELOADED, reload_in_loop

TILES, TERMS, LANES = 3, 4, 4


def _sums(*, is_marked: bool) -> Any:
    """Return ``y[tile] = sum of x[tile, term] * w[term]``, a vector a tile."""
    x = te.placeholder((TILES, TERMS), name="x")
    w = te.placeholder((TERMS, LANES), name="w")
    term = te.reduce_axis((0, TERMS), "term")
    y = te.compute(
        (TILES, LANES), lambda tile, lane: te.sum(x[tile, term] * w[term, lane], term), name="y"
    )
    sch = tvm.tir.Schedule(te.create_prim_func([x, w, y]))
    block = sch.get_block("y")
    _, lane, terms = sch.get_loops(block)
    sch.reorder(terms, lane)
    sch.vectorize(lane)
    if is_marked:
        sch.annotate(terms, RELOADED, 1)
    sch.decompose_reduction(block, terms)
    func = sch.mod["main"]
    return reload_in_loop(func, func.buffer_map[func.params[0]].data)


def test_marked_sums_are_the_same() -> None:
    kernel = compile_kernel(_sums(is_marked=True), resolve_target("llvm"), "kernel")
    generator = np.random.default_rng(0)
    x, w = (
        generator.normal(size=shape).astype("float32") for shape in ((TILES, TERMS), (TERMS, LANES))
    )
    y = tvm.nd.array(np.zeros((TILES, LANES), "float32"))
    kernel(tvm.nd.array(x), tvm.nd.array(w), y)
    np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("is_marked", "lines"), [(True, TILES), (False, 0)])
def test_each_tile_has_an_address_of_its_own(is_marked: bool, lines: int) -> None:
    target = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    code = compile_kernel(_sums(is_marked=is_marked), target, "kernel").get_source("asm")
    # LLVM writes the tiles out, and marks each line of assembly that it keeps.
    assert code.count("//APP") == lines
