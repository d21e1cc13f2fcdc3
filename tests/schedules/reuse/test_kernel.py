"""The kernel alone: the numbers of numpy, whatever the tile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import tir

from tests.relay_modules import REASSOCIATING
from tests.reuse_layers import Numbers, drawn
from tests.verified_kernels import assert_kernel
from tvm_fusionx.reuse.tiling import ReuseTiling
from tvm_fusionx.schedules.reuse.kernel import ReuseKernel, ReuseOperands


@pytest.mark.parametrize(
    ("seed", "limit", "tiling"),
    [
        (1, 4096, ReuseTiling(1, 1, 1, 1, 1, 1)),
        (2, 4, ReuseTiling(4, 3, 4, 3, 1, 1)),
        (4, 7, ReuseTiling(8, 5, 2, 2, 2, 1)),
        (5, 3, ReuseTiling(16, 2, 4, 1, 1, 1)),
    ],
    ids=str,
)
def test_numbers(seed: int, limit: int, tiling: ReuseTiling) -> None:
    layer = replace(drawn(seed), limit=limit)
    numbers = Numbers.drawn(layer)
    operands, result = numbers.operands(layer), numbers.expected(layer)
    reads = [tir.decl_buffer(each.shape, "float32", "read") for each in operands]
    made = tir.decl_buffer(result.shape, "float32", "made")
    given = ReuseOperands(*reads, made)
    assert given.reads == reads
    kernel = ReuseKernel(layer, given, tiling).build(parallel=False)
    func = tir.PrimFunc([*reads, made], kernel)
    assert_kernel(func, "llvm", operands, [result], REASSOCIATING)
