"""The kernel alone: the numbers of numpy, whatever the tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.relay_modules import REASSOCIATING
from tests.schedules.packed_blocks import KINDS, drawn
from tests.verified_kernels import assert_kernel
from tvm_fusionx.layout.block_weights import in_panels
from tvm_fusionx.schedules.packed.kernel import Operands, PackedKernel
from tvm_fusionx.schedules.packed.tiling import PackedTiling

LENGTH, WIDTH, PANELS = 96, 8, 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "tiling"),
    [(1, PackedTiling(4, 1, 2)), (5, PackedTiling(2, 3, 1)), (2, PackedTiling(1, 2, 4))],
    ids=str,
)
def test_numbers(kind: str, rows: int, tiling: PackedTiling) -> None:
    weight = drawn(kind, PANELS * WIDTH, LENGTH)
    parts = [in_panels(part, WIDTH) for part in weight.arrays]
    data = tir.decl_buffer((rows, LENGTH), "float32", "data")
    buffers = [tir.decl_buffer(part.shape, str(part.dtype), "part") for part in parts]
    found = tir.decl_buffer((rows, PANELS * WIDTH), "float32", "found")
    levels, scales, *minima = buffers

    def store(row: Any, column: Any, value: Any) -> Any:
        return tir.BufferStore(found, value, [row, column])

    operands = Operands(data, levels, scales, minima[0] if minima else None)
    assert operands.buffers == [data, *buffers]
    kernel = PackedKernel(operands, tiling, store).build(parallel=False)
    func = tir.PrimFunc([data, *buffers, found], kernel)
    x = np.random.default_rng(1).standard_normal((rows, LENGTH)).astype("float32")
    expected = (x.astype("float64") @ weight.floats().T.astype("float64")).astype("float32")
    assert_kernel(func, "llvm", [x, *parts], [expected], REASSOCIATING)
