from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.merged_groups import MergedGroups, is_moved, merge_groups, merge_weights
from tvm_fusionx.schedules import describe_cpu, resolve_target

VNNI = "llvm -mcpu=icelake-server"
# Multiplies eight bytes by eight, with vectors of four sums.
MATRICES = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm"


def _conv(inputs: int, outputs: int, groups: int) -> Node:
    weights = const(outputs, inputs // groups, 3, 3)
    image = var("x", 1, inputs, 5, 5)
    (node,) = graph(relay.nn.conv2d(image, weights, padding=(1, 1), groups=groups)).calls()
    return node


@pytest.mark.parametrize(
    ("channels", "groups", "target", "expected"),
    [
        # Vectors are filled: nothing is merged.
        ((64, 64), 4, VNNI, MergedGroups(4, 1, 16, 16)),
        # Two groups of two make a depth of four, eight groups a vector of 16 sums.
        ((32, 32), 16, VNNI, MergedGroups(2, 8, 16, 16)),
        # Eight by eight become 16 by 16: no more instructions, and chunks as elsewhere.
        ((64, 64), 8, VNNI, MergedGroups(4, 2, 16, 16)),
        # No part of three groups of one has four inputs: one group of all.
        ((6, 12), 3, VNNI, MergedGroups(1, 3, 6, 12)),
        ((64, 64), 16, MATRICES, MergedGroups(8, 2, 8, 8)),
        ((24, 32), 1, VNNI, MergedGroups(1, 1, 24, 32)),
    ],
)
def test_groups_are_merged_until_instructions_are_filled(
    channels: tuple[int, int], groups: int, target: str, expected: MergedGroups
) -> None:
    cpu = describe_cpu(resolve_target(target))
    assert cpu.dot is not None
    vector = max(min(16, cpu.lanes), cpu.dot.depth)
    assert merge_groups(_conv(*channels, groups), vector, cpu.dot) == expected


def test_chunks_that_lie_in_two_groups_are_moved() -> None:
    assert is_moved(MergedGroups(4, 1, 8, 8), 16)
    assert not is_moved(MergedGroups(2, 2, 16, 16), 16)


@pytest.mark.parametrize("together", [1, 2, 6])
def test_channels_of_different_groups_meet_zeros(together: int) -> None:
    groups, inputs, outputs = 6, 2, 3
    array = np.random.default_rng(0).integers(1, 100, (groups * outputs, inputs, 3, 2))
    way = MergedGroups(groups // together, together, together * inputs, together * outputs)
    merged = merge_weights(array, way)
    assert merged.shape == (groups * outputs, together * inputs, 3, 2)
    for o in range(groups * outputs):
        first = o // outputs % together * inputs
        assert np.array_equal(merged[o, first : first + inputs], array[o])
    assert np.count_nonzero(merged) == array.size
