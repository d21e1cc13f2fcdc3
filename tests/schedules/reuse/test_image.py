"""The padded image: what lies where a row's window begins is what the row begins with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.reuse_layers import Numbers, drawn
from tests.verified_kernels import assert_kernel
from tvm_fusionx.reuse.clusters import unfold
from tvm_fusionx.reuse.layer import ReuseLayer
from tvm_fusionx.schedules.reuse.image import PaddedImage


def _first_columns(layer: ReuseLayer, shape: Any) -> Any:
    """Return a function that stores the first number of each row."""
    ib = tir.ir_builder.create()
    data = tir.decl_buffer(shape, "float32", "data")
    made = tir.decl_buffer((layer.groups, layer.rows), "float32", "made")
    image = PaddedImage(ib, layer, data)
    image.allocate()
    with ib.for_range(0, layer.groups, "group") as group:
        image.fill(group, parallel=False)
        with ib.for_range(0, layer.rows, "row") as row:
            value = image.element(group, image.start(row))
            ib.emit(tir.BufferStore(made, value, [group, row]))
    return tir.PrimFunc([data, made], ib.get())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("in_place", [False, True])
def test_where_windows_begin(seed: int, in_place: bool) -> None:
    layer = drawn(seed)
    if in_place:
        layer = replace(layer, chunks=1, padding=(0, 0, 0, 0))
    assert layer.is_in_place or not in_place
    numbers = Numbers.drawn(layer, seed)
    data = numbers.operands(layer)[0]
    firsts = unfold(layer, numbers.data)[:, 0].reshape(layer.groups, layer.rows)
    result = np.ascontiguousarray(firsts)
    assert_kernel(_first_columns(layer, data.shape), "llvm", [data], [result], 0.0)
