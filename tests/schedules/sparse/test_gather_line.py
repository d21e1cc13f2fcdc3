"""A gathered row: what lies in the image between zeros, whatever the step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.relay_modules import EXACT
from tests.schedules.sparse_blocks import Window
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.sparse.gather_line import columns_inside, gather_line

PADDED = Window(1, 8, 8, 3, 6, padding=(0, 1, 0, 2))


@pytest.mark.parametrize(
    ("case", "inside"),
    [
        (PADDED, (1, 7)),
        (replace(PADDED, stride=2), (1, 7)),
        (replace(PADDED, kernel=1, stride=2, padding=(0, 0, 0, 0)), (0, 3)),
    ],
    ids=["step 1", "stride 2", "pixels left out"],
)
def test_a_row_between_zeros(case: Window, inside: tuple[int, int]) -> None:
    geometry = case.geometry
    assert columns_inside(geometry) == inside
    image = tir.decl_buffer((case.width, geometry.lanes), "float32", "image")
    held = tir.decl_buffer((geometry.columns * geometry.lanes,), "float32", "held")
    ib = tir.ir_builder.create()

    def element(column: Any, lane: Any) -> Any:
        return tir.BufferLoad(image, [column, lane])

    gather_line(ib, geometry, held, tir.const(0, "int32"), element)
    x = np.random.default_rng(0).standard_normal((case.width, geometry.lanes)).astype("float32")
    expected = np.zeros((geometry.columns, geometry.lanes), "float32")
    step, before = geometry.steps[1], geometry.padding[1]
    for column in range(*inside):
        expected[column] = x[column * step - before]
    func = tir.PrimFunc([image, held], ib.get())
    assert_kernel(func, "llvm", [x], [expected.reshape(-1)], EXACT)
