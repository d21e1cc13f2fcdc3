"""What follows a stage becomes one stage in its axes, and a kernel takes the place of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay, te, tir

from tests.relay_modules import EXACT, assert_close, var
from tests.schedules.blocked_blocks import describe, hard_swish
from tvm_fusionx.schedules.parts.hand_written_kernel import (
    gather_what_follows,
    replace_stages,
    stage_nests,
    storing,
)
from tvm_fusionx.tir.inline_into_producer import inline_into_producer

SIZE = 6


def test_scalars_and_several_readers_become_one_stage() -> None:
    pooled = relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), (2, 2), layout="NCHW8c")
    info = describe(hard_swish(pooled))
    (window,) = info.reductions
    sch = tir.Schedule(tvm.IRModule({"main": info.func}))
    write = gather_what_follows(sch, info, window.name, info.outputs[0])
    assert stage_nests(sch.mod["main"]).keys() == {window.name, write}


def test_what_has_no_place_in_the_axes_stays() -> None:
    pooled = relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), (2, 2), layout="NCHW8c")
    info = describe(relay.image.resize2d(pooled, (7, 7), roi=None, layout="NCHW8c"))
    (window,) = info.reductions
    sch = tir.Schedule(tvm.IRModule({"main": info.func}))
    write = gather_what_follows(sch, info, window.name, info.outputs[0])
    assert {window.name, write, info.outputs[0]} <= stage_nests(sch.mod["main"]).keys()


def test_places_that_a_nest_leaves_out_are_tested() -> None:
    x = te.placeholder((SIZE,), name="x")
    doubled = te.compute((SIZE,), lambda i: x[i] * 2.0, name="doubled")
    cut = te.compute((SIZE - 2,), lambda i: doubled[i] + 1.0, name="cut")
    sch = tir.Schedule(te.create_prim_func([x, cut]))
    assert inline_into_producer(sch, "cut")
    (block,) = stage_nests(sch.mod["main"]).values()
    assert isinstance(block.body, tir.IfThenElse)
    (at,) = block.iter_vars
    tvm.ir.assert_structural_equal(block.body.condition, at.var < SIZE - 2)


def _doubled_and_moved() -> Any:
    x = te.placeholder((SIZE,), name="x")
    doubled = te.compute((SIZE,), lambda i: x[i] * 2.0, name="doubled")
    moved = te.compute((SIZE,), lambda i: doubled[i] + 1.0, name="moved")
    return te.create_prim_func([x, moved])


def test_a_kernel_takes_the_place_of_stages() -> None:
    func = _doubled_and_moved()
    blocks = stage_nests(func)
    (x,) = (region.buffer for region in blocks["doubled"].reads)
    store = storing(blocks["moved"], {blocks["doubled"].writes[0].buffer.data})
    at = tir.Var("at", "int64")
    loop = tir.For(at, 0, SIZE, tir.ForKind.SERIAL, store(at, x[at] * 3.0))
    made = replace_stages(func, ["doubled"], "moved", [x], "kernel", loop)
    assert stage_nests(made).keys() == {"kernel"}
    given, found = np.arange(SIZE, dtype="float32"), tvm.nd.empty((SIZE,))
    tvm.build(made, "llvm")(tvm.nd.array(given), found)
    assert_close([found.numpy()], [given * 3 + 1], EXACT)


def test_a_store_may_be_redirected() -> None:
    blocks = stage_nests(_doubled_and_moved())
    internal = {blocks["doubled"].writes[0].buffer.data}
    seen: list[Any] = []

    def keep(*place_and_value: Any) -> Any:
        seen.extend(place_and_value)
        return tir.Evaluate(0)

    at = tir.Var("at", "int64")
    storing(blocks["moved"], internal, keep)(at, tir.const(4.0, "float32"))
    place, value = seen
    assert place.same_as(at)
    assert float(tvm.arith.Analyzer().simplify(value)) == 5.0
