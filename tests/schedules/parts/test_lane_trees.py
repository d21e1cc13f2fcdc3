"""Lanes are added up by trees: every sum comes out once, where it was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tir

from tests.relay_modules import REASSOCIATING
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.parts.lane_trees import LaneTree, places_put_together
from tvm_fusionx.schedules.parts.vectors import ramp

LANES = [4, 8, 16]


@pytest.mark.parametrize(
    ("lanes", "summed"), [(lanes, 1 << n) for lanes in LANES for n in range(lanes.bit_length())]
)
@pytest.mark.parametrize("backwards", [False, True])
def test_runs_of_lanes_become_sums(lanes: int, summed: int, backwards: bool) -> None:
    """The sum of a run stands in the lane that asks for it, in any order."""
    given = tir.decl_buffer((summed, lanes), "float32", "given")
    found = tir.decl_buffer((lanes,), "float32", "found")
    ib = tir.ir_builder.create()
    tree = LaneTree(ib, lanes, summed, "float32")
    for row in range(summed):
        tree.add(tir.BufferLoad(given, [row, ramp(0, lanes)]))
    wanted = [(row, part) for row in range(summed) for part in range(lanes // summed)]
    if backwards:
        wanted.reverse()
    result = tree.in_order(wanted)
    ib.emit(tir.BufferStore(found, tir.BufferLoad(result, [ramp(0, lanes)]), [ramp(0, lanes)]))
    data = np.random.default_rng(0).standard_normal((summed, lanes), dtype="float32")
    sums = data.reshape(summed, lanes // summed, summed).sum(-1)
    expected = np.array([sums[place] for place in wanted], "float32")
    func = tir.PrimFunc([given, found], ib.get())
    assert_kernel(func, "llvm", [data], [expected], REASSOCIATING)


@pytest.mark.parametrize("lanes", LANES)
def test_whole_vectors_of_one_run_each_come_in_order(lanes: int) -> None:
    """No shuffle is left to do where each vector is summed into one lane."""
    ib = tir.ir_builder.create()
    given = tir.decl_buffer((lanes, lanes), "float32", "given")
    tree = LaneTree(ib, lanes, lanes, "float32")
    for row in range(lanes):
        tree.add(tir.BufferLoad(given, [row, ramp(0, lanes)]))
    tree.in_order([(row, 0) for row in range(lanes)])
    shuffles: list[tir.Shuffle] = []

    def visit(node: object) -> None:
        if isinstance(node, tir.Shuffle):
            shuffles.append(node)

    tir.stmt_functor.post_order_visit(ib.get(), visit)
    assert len(shuffles) == 2 * (lanes - 1)


@pytest.mark.parametrize("lanes", LANES)
def test_shuffles_take_neighbours_within_a_unit_or_whole_ones(lanes: int) -> None:
    """Each is one instruction: of numbers within 128 bits, or of units of 128 bits."""
    for step in range(2):
        low, high = places_put_together(lanes, step)
        assert low[:4] == [0, 2, lanes, lanes + 2]
        assert high == [place + 1 for place in low]
    for step in range(2, lanes.bit_length() - 1):
        for places in places_put_together(lanes, step):
            starts = places[::4]
            assert places == [start + n for start in starts for n in range(4)]
