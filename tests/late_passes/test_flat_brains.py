from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relay, te, tir

import tvm_fusionx as fx
from tvm_fusionx.late_passes.flat_brains import unmark_flat_brains
from tvm_fusionx.tir.brain_floats import BRAIN


def _copied(dtype: str) -> tvm.IRModule:
    """Return a flat copy of an open array, as TVM lowers it."""
    buffer = tir.decl_buffer((te.var("n"), 4), dtype, "x", buffer_type="auto_broadcast")
    x = te.placeholder(buffer.shape, dtype, "x")
    y = te.compute(buffer.shape, lambda i, j: x[i, j], "y")
    schedule = te.create_schedule(y.op)
    return tvm.lower(schedule, [buffer, y], binds={x: buffer}, simple_mode=False)


def _marks(mod: tvm.IRModule) -> list[int]:
    found: list[int] = []
    body = next(iter(mod.functions.values())).body
    tir.stmt_functor.post_order_visit(
        body,
        lambda node: (
            found.append(int(node.buffer.buffer_type)) if isinstance(node, tir.BufferLoad) else None
        ),
    )
    return found


def test_the_flat_form_loses_the_mark() -> None:
    mod = _copied(BRAIN)
    assert _marks(mod) == [2]
    assert _marks(unmark_flat_brains()(mod)) == [1]


def test_other_types_keep_it() -> None:
    mod = _copied("float16")
    assert tvm.ir.structural_equal(unmark_flat_brains()(mod), mod)
    assert _marks(unmark_flat_brains()(mod)) == [2]


@pytest.mark.slow
def test_rows_that_the_data_chooses_are_right() -> None:
    x = relay.var("x", shape=(6, 4), dtype=BRAIN)
    chosen = relay.var("chosen", shape=(6,), dtype="bool")
    places = relay.reshape(relay.argwhere(chosen), [-1])
    taken = relay.take(x, relay.cast(places, "int64"), axis=0)
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x, chosen], taken + taken))
    )
    numbers = np.arange(24).reshape(6, 4).astype(ml_dtypes.bfloat16)
    flags = np.array([1, 0, 1, 1, 0, 0], bool)
    (found,) = fx.build(mod, "llvm").run(x=numbers, chosen=flags)
    np.testing.assert_array_equal(found, numbers[flags] * 2)
