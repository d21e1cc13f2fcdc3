"""Multiply-adds that take one lane of a vector."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.schedules.blocked_blocks import AVX2, AVX512, NEON
from tests.verified_kernels import assert_kernel
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.lanes import lane_of, lanes_multiplied
from tvm_fusionx.schedules.parts.vectors import load, store

LANES = 4


def _kernel() -> tir.PrimFunc:
    """Return ``total[4 i + j] = more[4 i + j] + left[4 i + j] * right[i]``, right one vector."""
    left, right, more, total = (
        tir.decl_buffer((size,), "float32", name)
        for name, size in (("left", 16), ("right", LANES), ("more", 16), ("total", 16))
    )
    steps = []
    for lane in range(LANES):
        at = LANES * lane
        product = load(left, at, LANES) * lane_of(load(right, 0, LANES), lane, LANES)
        steps.append(store(total, at, load(more, at, LANES) + product, LANES))
    return tir.PrimFunc([left, right, more, total], tir.stmt_seq(*steps))


def test_each_lane_multiplies_a_vector() -> None:
    left, right = np.arange(16, dtype="float32"), np.array([3, -1, 4, 2], "float32")
    more = np.arange(16, 0, -1).astype("float32")
    expected = more + left * np.repeat(right, LANES)
    assert_kernel(_kernel(), "llvm", [left, right, more], [expected], 1e-6)


def test_arm_multiplies_by_the_lane() -> None:
    target = tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    func = _kernel().with_attr({"global_symbol": "main", "tir.noalias": True})
    text = tvm.build(func, target=target).get_source("asm")
    lanes = re.findall(r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.s\[(\d)\]", text)
    assert sorted(lanes) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(("cpu", "lanes"), [(NEON, 4), (AVX2, 1), (AVX512, 1)])
def test_processors_that_multiply_by_a_lane(cpu: Cpu, lanes: int) -> None:
    assert lanes_multiplied(cpu) == lanes
