"""The kernel alone: the numbers of numpy, whatever the tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.relay_modules import REASSOCIATING, TARGET
from tests.schedules.packed_blocks import KINDS, drawn, rounded
from tests.verified_kernels import assert_kernel
from tvm_fusionx.layout.block_weights import in_panels, in_word_panels
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.packed.bytes_kernel import BytesKernel
from tvm_fusionx.schedules.packed.kernel import Operands
from tvm_fusionx.schedules.packed.tiling import PackedTiling

LENGTH, WIDTH, PANELS = 96, 8, 4


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rows", "tiling"),
    [(1, PackedTiling(1, 1)), (5, PackedTiling(2, 3)), (2, PackedTiling(4, 2))],
    ids=str,
)
def test_numbers(kind: str, rows: int, tiling: PackedTiling) -> None:
    target = resolve_target(TARGET)
    cpu = describe_cpu(target)
    if cpu.byte_dot is None or cpu.byte_dot.name_for(WIDTH) is None:
        pytest.skip("this processor multiplies no bytes for 8 sums; test_on_arm runs the kernel")
    weight = drawn(kind, PANELS * WIDTH, LENGTH)
    parts = [in_panels(part, WIDTH) for part in weight.arrays]
    parts[0] = in_word_panels(weight.levels, WIDTH)
    data = tir.decl_buffer((rows, LENGTH), "float32", "data")
    buffers = [tir.decl_buffer(part.shape, str(part.dtype), "part") for part in parts]
    found = tir.decl_buffer((rows, PANELS * WIDTH), "float32", "found")
    levels, scales, *minima = buffers

    def store(row: Any, column: Any, value: Any) -> Any:
        return tir.BufferStore(found, value, [row, column])

    operands = Operands(data, levels, scales, minima[0] if minima else None)
    kernel = BytesKernel(operands, tiling, cpu.byte_dot, WIDTH, store).build(parallel=False)
    # A lone row waits for memory alone, and fetches ahead.
    assert ("llvm.prefetch" in str(kernel)) == (rows == 1)
    func = tir.PrimFunc([data, *buffers, found], kernel)
    x = np.random.default_rng(1).standard_normal((rows, LENGTH)).astype("float32")
    expected = (rounded(x) @ weight.floats().T.astype("float64")).astype("float32")
    assert_kernel(func, target, [x, *parts], [expected], REASSOCIATING)
