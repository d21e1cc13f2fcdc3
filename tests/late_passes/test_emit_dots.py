from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_fusionx.late_passes.emit_dots import emit_dots
from tvm_fusionx.lowering import compile_kernel, lowering, register
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tir.dot_call import dot


@pytest.mark.parametrize("lanes", [4, 5, 16])
@pytest.mark.parametrize("step", [1, 2])
def test_any_operands_give_the_right_sum(lanes: int, step: int) -> None:
    """Lanes of no instruction, and operands that do not lie side by side, become arithmetic."""
    register()
    depth = 4
    data = te.placeholder((depth * step,), "uint8", name="data")
    weights = te.placeholder((lanes, depth), "int8", name="weights")
    result = te.compute(
        (lanes,),
        lambda n: dot(
            [data[i * step] for i in range(depth)], [weights[n, i] for i in range(depth)]
        ),
    )
    schedule = tvm.tir.Schedule(te.create_prim_func([data, weights, result]))
    schedule.vectorize(schedule.get_loops(schedule.get_block(result.op.name))[0])
    target = resolve_target("llvm -mcpu=native")
    kernel = compile_kernel(schedule.mod["main"], target, "kernel")
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(0, 256, depth * step).astype("uint8"),
        generator.integers(-128, 128, (lanes, depth)).astype("int8"),
        np.zeros(lanes, "int32"),
    ]
    held = [tvm.nd.array(array) for array in arrays]
    kernel["kernel"](*held)
    expected = arrays[1].astype("int32") @ arrays[0][::step].astype("int32")
    assert np.array_equal(held[2].numpy(), expected)


def test_nothing_changes_where_there_is_no_dot() -> None:
    a = te.placeholder((8,), "float32")
    function = te.create_prim_func([a, te.compute((8,), lambda i: a[i] + a[i])])
    module = tvm.IRModule({"main": function})
    with lowering("llvm"):
        assert tvm.ir.structural_equal(emit_dots(None)(module), module)
