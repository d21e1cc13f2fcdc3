"""The loops of an attention: the same numbers however it is divided."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tvm

from tests.relay_modules import REASSOCIATING, TARGET, assert_close
from tests.sampled import few_fast_rows
from tests.schedules.attention_numbers import expected, operands
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.matrix_blocks import attention
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target, schedule

SHAPE = (2, 21, 250, 5, 10)
# A chunk is whole panels, of 2 vectors of 16 lanes or 3 of 8, or all keys.
TILINGS = list(itertools.product((1, 5, 8), (1, 2), (96, 192, 250)))


@pytest.mark.parametrize(("rows", "tiles", "chunk"), few_fast_rows(TILINGS, 1))
def test_any_division_gives_the_same(rows: int, tiles: int, chunk: int) -> None:
    target = resolve_target(TARGET)
    func = unscheduled(attention(*SHAPE))
    knobs = {"tile_rows": rows, "block_tiles": tiles, "key_chunk": chunk}
    scheduled = schedule(func, target, knobs)
    assert (scheduled.template, scheduled.fallback_reason) == ("streamed_attention", None)
    assert knobs.items() <= scheduled.knobs.items()
    arrays = operands(*SHAPE)
    wanted = expected(arrays, SHAPE[0]).astype("float32")
    result = tvm.nd.array(np.zeros_like(wanted))
    places = [func.buffer_map[each] for each in func.params[:-1]]
    arguments = [
        tvm.nd.array(next(a for a in arrays.values() if a.shape == tuple(map(int, b.shape))))
        for b in places
    ]
    compile_kernel(scheduled.func, target, "kernel")["kernel"](*arguments, result)
    assert_close([result.numpy()], [wanted], REASSOCIATING)
