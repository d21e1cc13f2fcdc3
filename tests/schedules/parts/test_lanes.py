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
from tvm_fusionx.schedules.parts.lanes import (
    SPARE_BESIDE_LANES,
    lane_of,
    lanes_multiplied,
    rows_by_lanes,
    shared,
    terms_by_lanes,
)
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
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


@pytest.mark.parametrize("extent", [3, 8, 13])
@pytest.mark.parametrize("lanes", [1, LANES])
def test_terms_that_fill_no_vector_come_one_by_one(extent: int, lanes: int) -> None:
    ib = tir.ir_builder.create()
    left, right, total = (
        tir.decl_buffer((size,), "float32", name)
        for name, size in (("left", LANES * extent), ("right", extent), ("total", LANES))
    )
    sums = VectorSums(ib, 1, LANES, "float32")
    sums.fill()
    with terms_by_lanes(ib, extent, lanes) as steps:
        for at, lane in steps:
            vector = load(left, LANES * (at + (lane or 0)), LANES)
            sums.add_product(0, vector, shared(right, at, lane, lanes, LANES))
    ib.emit(store(total, 0, sums.value(0), LANES))
    x, y = np.random.default_rng(0).standard_normal((2, extent, LANES)).astype("float32")
    expected = (x * y[:, :1]).sum(axis=0)
    func = tir.PrimFunc([left, right, total], ib.get())
    assert_kernel(func, "llvm", [x.ravel(), np.ascontiguousarray(y[:, 0])], [expected], 1e-5)


@pytest.mark.parametrize("vectors", range(1, 13))
def test_rows_fill_the_registers_beside_their_lanes(vectors: int) -> None:
    rows = rows_by_lanes(vectors, NEON)
    held = rows * vectors + rows + vectors
    assert held <= NEON.registers - SPARE_BESIDE_LANES < held + vectors + 1


@pytest.mark.parametrize(("cpu", "lanes"), [(NEON, 4), (AVX2, 1), (AVX512, 1)])
def test_processors_that_multiply_by_a_lane(cpu: Cpu, lanes: int) -> None:
    assert lanes_multiplied(cpu) == lanes
