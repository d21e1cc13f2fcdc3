"""The kernel alone: the numbers of numpy, whatever the tile, and as many tasks as chunks hold."""

from __future__ import annotations

import pytest
from tvm import arith, tir

from tests.cached_attentions import attention_call, drawn, expected
from tests.relay_modules import REASSOCIATING
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.attention.cached_kernel import (
    CachedAttentionKernel,
    CachedOperands,
    CachedTiling,
)

TILINGS = [
    CachedTiling(4, 16, 3, 4, 2),
    CachedTiling(8, 64, 2, 1, 4),
    CachedTiling(16, 32, 4, 2, 1),
    CachedTiling(1, 2, 1, 2, 1),
]


def _kernel(tiling: CachedTiling, *, parallel: bool) -> tir.PrimFunc:
    operands = drawn(attention_call(2, 5, 32, 64), 0)
    *reads, result = (
        tir.decl_buffer(each.shape, str(each.dtype), "operand") for each in (*operands, operands[0])
    )
    given = CachedOperands(*reads, result)
    assert given.reads == reads
    statement = CachedAttentionKernel(given, tiling).build(parallel=parallel)
    return tir.PrimFunc([*reads, result], statement)


@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_numbers(tiling: CachedTiling) -> None:
    func = _kernel(tiling, parallel=False)
    for position in (-3, 0, 1, tiling.chunk, tiling.chunk + 1, 64, 99):
        operands = drawn(attention_call(2, 5, 32, 64), position)
        assert_kernel(func, "llvm", operands, [expected(operands)], REASSOCIATING)


def test_there_are_as_many_tasks_as_chunks_that_hold_something() -> None:
    func = _kernel(TILINGS[0], parallel=True)
    extents = []

    def visit(node: object) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
            extents.append(node.extent)

    tir.stmt_functor.post_order_visit(func.body, visit)
    (extent,) = extents
    position = tir.Var("position", "int32")

    def replaced(node: object) -> object:
        return position if isinstance(node, tir.BufferLoad) else None

    counted = tir.stmt_functor.ir_transform(
        tir.Evaluate(extent), None, replaced, ["tir.BufferLoad"]
    ).value
    for filled, tasks in ((0, 0), (1, 2), (16, 2), (17, 4), (64, 8), (99, 8)):
        value = tir.stmt_functor.substitute(counted, {position: tir.const(filled, "int32")})
        assert int(arith.Analyzer().simplify(value)) == tasks
