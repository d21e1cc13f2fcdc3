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
from tvm_fusionx.tuning.task import make_task

SHAPE = (2, 21, 250, 5, 10)
# Which of a knob's choices: they differ with the registers.
LEAST, MIDDLE, MOST = range(3)
DIVISIONS = list(itertools.product((LEAST, MIDDLE, MOST), (LEAST, MIDDLE), (LEAST, MIDDLE, MOST)))


@pytest.mark.parametrize(("rows", "tiles", "chunk"), few_fast_rows(DIVISIONS, 1))
def test_any_division_gives_the_same(rows: int, tiles: int, chunk: int) -> None:
    target = resolve_target(TARGET)
    func = unscheduled(attention(*SHAPE))
    offered = make_task(func, "streamed_attention", target).space.knobs
    places = {"tile_rows": rows, "block_tiles": tiles, "key_chunk": chunk}
    choices = {name: offered[name].choices for name in places}
    knobs = {
        name: (each[0], each[len(each) // 2], each[-1])[places[name]]
        for name, each in choices.items()
    }
    scheduled = schedule(func, target, knobs)
    assert (scheduled.template, scheduled.fallback_reason) == ("streamed_attention", None)
    assert knobs.items() <= scheduled.knobs.items()
    arrays = operands(*SHAPE)
    wanted = expected(arrays, SHAPE[0]).astype("float32")
    result = tvm.nd.array(np.zeros_like(wanted))
    buffers = [func.buffer_map[each] for each in func.params[:-1]]
    arguments = [
        tvm.nd.array(next(a for a in arrays.values() if a.shape == tuple(map(int, b.shape))))
        for b in buffers
    ]
    compile_kernel(scheduled.func, target, "kernel")["kernel"](*arguments, result)
    assert_close([result.numpy()], [wanted], REASSOCIATING)
