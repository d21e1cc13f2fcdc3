"""Data in planes: what is copied where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.schedules.sparse_blocks import Window
from tvm_fusionx.schedules.gpu.planes import (
    Planes,
    planes_of_pixels,
    planes_of_rows,
    planes_of_windows,
)

Array = np.ndarray[Any, Any]


def _copied(x: Array, planes_of: Any, *rest: Any) -> Array:
    """Return what the loops copy, run on the CPU; what they leave out is -1."""
    source = tir.decl_buffer(x.shape, "float32", "x")
    planes: Planes = planes_of(lambda *place: tir.BufferLoad(source, list(place)), *rest)
    held = tir.decl_buffer(planes.shape, "float32", "held")
    parameters = [tir.Var(name, "handle") for name in ("x", "held")]
    body = tir.Block([], [], [], "root", planes.nest(held))
    root = tir.BlockRealize([], tir.const(True, "bool"), body)
    maps = dict(zip(parameters, (source, held), strict=True))
    func = tir.PrimFunc(parameters, root, buffer_map=maps).with_attr("global_symbol", "copy")
    found = tvm.nd.array(np.full(planes.shape, -1, "float32"))
    tvm.build(func, target="llvm")(tvm.nd.array(x), found)
    return found.numpy()


def _numbers(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1


@pytest.mark.parametrize("length", [8, 6])
def test_rows_become_columns(length: int) -> None:
    x = _numbers(5, length)
    assert (_copied(x, planes_of_rows, 5, length, 4).reshape(length, 5) == x.T).all()


def test_pixels_lie_channel_by_channel() -> None:
    case = Window(2, 8, 8, 3, 4, kernel=1, padding=(0,) * 4, lanes=4)
    x = _numbers(2, 2, 3, 4, 4)
    found = _copied(x, planes_of_pixels, 2, case.geometry).reshape(2, 2, 4, 3, 4)
    assert (found == x.transpose(0, 1, 4, 2, 3)).all()


def test_windows_have_zeros_around_them_and_strides_apart() -> None:
    case = Window(1, 8, 8, 4, 5, stride=2, padding=(1, 1, 1, 0), lanes=4, planar=True)
    x = _numbers(1, 2, 4, 5, 4)
    geometry = case.geometry
    found = _copied(x, planes_of_windows, 1, geometry)[0]
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 0), (0, 0)))
    for row in range(geometry.gathered(geometry.result[0], 0)):
        for column in range(geometry.columns):
            for channel in range(8):
                at = (row * 8 + channel) * geometry.positions + geometry.position(column)
                assert found[at] == padded[channel // 4, row, column, channel % 4]
