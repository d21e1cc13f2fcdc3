"""Planes that a piece of the result reads: what lies where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.schedules.sparse_blocks import Window
from tvm_fusionx.expressions.sparse_filters import FilterPlanes
from tvm_fusionx.schedules.sparse.filter_planes import gather_planes

LANES = 4
CASES = (
    (Window(2, 8, 8, 5, 9, lanes=4), 3),
    (Window(1, 8, 8, 7, 11, stride=2, padding=(0, 1, 1, 0), lanes=4), 2),
    # Narrower than what is turned at once; one channel in a chunk.
    (Window(1, 3, 4, 4, 3, lanes=3), 4),
    (Window(1, 2, 4, 4, 6, lanes=1), 4),
)


def _gathered(case: Window, planes: FilterPlanes, top: int) -> Any:
    """Return the planes of the last image from row `top` of the result on."""
    x = tir.decl_buffer(case.image().shape, "float32", "x")
    size = case.inputs * planes.plane
    out = tir.decl_buffer((size,), "float32", "out")
    ib = tir.ir_builder.create()
    held = gather_planes(
        ib,
        planes,
        lambda *place: tir.BufferLoad(x, list(place)),
        (tir.const(case.images - 1, "int32"), tir.const(top, "int32")),
        LANES,
        0,
    )
    with ib.for_range(0, size, "copied") as place:
        ib.emit(tir.BufferStore(out, tir.BufferLoad(held, [place]), [place]))
    func = tir.PrimFunc([x, out], ib.get()).with_attr("global_symbol", "main")
    built = tvm.build(tvm.IRModule({"main": func}), target="llvm")
    result = tvm.nd.array(np.zeros(size, "float32"))
    built(tvm.nd.array(case.image()), result)
    return result.numpy()


@pytest.mark.parametrize(("case", "rows"), CASES, ids=str)
def test_each_tap_finds_its_number(case: Window, rows: int) -> None:
    geometry = case.geometry
    planes = FilterPlanes(geometry, rows)
    top = geometry.result[0] - rows
    held = _gathered(case, planes, top)
    edges = ((0, 0), (0, 0), case.padding[::2], case.padding[1::2], (0, 0))
    padded = np.pad(case.image(), edges)[-1]
    for channel in range(case.inputs):
        chunk, lane = divmod(channel, geometry.lanes)
        for tap in range(case.kernel**2):
            row, column = divmod(tap, case.kernel)
            for y in range(rows):
                first = channel * planes.plane + planes.distance(tap) + y * planes.pitch
                wanted = padded[chunk, (top + y) * case.stride + row, column :: case.stride, lane]
                columns = geometry.result[1]
                assert np.array_equal(held[first : first + columns], wanted[:columns])
