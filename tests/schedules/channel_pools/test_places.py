"""Places in a channel: where vectors of it are loaded and stored."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.channel_pools.places import each_vector, part_of, place_in, store_at
from tvm_fusionx.schedules.parts.vectors import ramp

LANES = 8


@pytest.mark.parametrize("size", [5, 8, 16, 21])
def test_every_element_of_a_channel_is_taken_once_or_more(size: int) -> None:
    source = tir.decl_buffer((2, 3, 4, 12), "float32", "source")
    target = tir.decl_buffer((40,), "float32", "target")
    ib = tir.ir_builder.create()
    channel, moved = place_in(source, 1, 2), part_of(target, 7)
    each_vector(
        ib,
        size,
        LANES,
        lambda at, lanes: store_at(
            moved, ramp(at, lanes), tir.BufferLoad(*channel(ramp(at, lanes)))
        ),
    )
    handles = [tir.Var(name, "handle") for name in ("a", "b")]
    func = tir.PrimFunc(handles, ib.get(), None, dict(zip(handles, (source, target), strict=True)))
    array = np.arange(2 * 3 * 48, dtype="float32").reshape(2, 3, 4, 12)
    given, found = tvm.nd.array(array), tvm.nd.array(np.zeros(40, "float32"))
    tvm.build(func, target="llvm")(given, found)
    wanted = np.zeros(40, "float32")
    wanted[7 : 7 + size] = array[1, 2].ravel()[:size]
    np.testing.assert_array_equal(found.numpy(), wanted)
