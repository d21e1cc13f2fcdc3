"""Pairs of rows multiplied at once: which are, and by how many instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.pair_rows import pair_rows
from tvm_fusionx.lowering import compile_kernel, register
from tvm_fusionx.processors.integers import instruction_of
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.parts.vectors import load, store
from tvm_fusionx.tir.dot_call import dot

LANES, DEPTH, STEPS = 4, 8, 5
TARGET = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm"
MATRICES = instruction_of({"aarch64", "dotprod", "i8mm"})


def _kernel(
    rows: int, *, lanes: int = LANES, gap: int = 0, orders: Sequence[Sequence[int]] = ()
) -> tir.PrimFunc:
    """Return ``out[row] = sum over steps of dot(data[row], weights)``.

    Parameters
    ----------
    gap
        Integers between the elements of two rows.
    orders
        The order of the rows in each of the lines that a step is written out as; one line, in
        order, when empty.
    """
    orders = orders or [range(rows)]
    steps = STEPS * len(orders)
    step_size = rows * (DEPTH + gap)
    data = tir.decl_buffer((steps * step_size,), "int8", "data")
    weights = tir.decl_buffer((steps * lanes * DEPTH,), "int8", "weights")
    out = tir.decl_buffer((rows * lanes,), "int32", "out")
    ib = tir.ir_builder.create()
    sums = ib.allocate("int32", (rows * lanes,), "sums", scope="local")._buffer
    for row in range(rows):
        ib.emit(store(sums, row * lanes, tir.Broadcast(tir.const(0), lanes), lanes))
    for number, order in enumerate(orders):
        with ib.for_range(0, STEPS, "step") as turn:
            step = turn + number * STEPS
            for row in order:
                first = step * step_size + row * (DEPTH + gap)
                elements = [
                    tir.Broadcast(tir.BufferLoad(data, [first + at]), lanes) for at in range(DEPTH)
                ]
                columns = [
                    tir.BufferLoad(weights, [tir.Ramp(step * lanes * DEPTH + at, DEPTH, lanes)])
                    for at in range(DEPTH)
                ]
                call = dot(elements, columns)
                call = tir.Call(f"int32x{lanes}", call.op, call.args)
                ib.emit(store(sums, row * lanes, load(sums, row * lanes, lanes) + call, lanes))
    for row in range(rows):
        ib.emit(store(out, row * lanes, load(sums, row * lanes, lanes), lanes))
    return tir.PrimFunc([data, weights, out], ib.get())


def _products(func: tir.PrimFunc) -> int:
    """Return the instructions that the code has for products of matrices."""
    register()
    source: str = compile_kernel(func, resolve_target(TARGET), "kernel").get_source("asm")
    lines = [line.split() for line in source.splitlines()]
    assert not any("sdot" in line for line in lines)
    return sum("smmla" in line for line in lines)


def _exchanges(func: tir.PrimFunc) -> int:
    """Return the places of the pass's result where two rows exchange halves."""
    changed = pair_rows(MATRICES)(tvm.IRModule({"main": func}))["main"]
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Allocate) and node.buffer_var.name == "held":
            found.append(node)

    tir.stmt_functor.post_order_visit(changed.body, visit)
    return len(found)


@pytest.mark.parametrize(("rows", "pairs"), [(1, 0), (2, 1), (3, 1), (4, 2), (8, 4)])
def test_rows_exchange_halves_before_and_behind_the_loop(rows: int, pairs: int) -> None:
    register()
    assert _exchanges(_kernel(rows)) == 2 * pairs


@pytest.mark.parametrize("gap", [0, 8])
@pytest.mark.parametrize("lanes", [LANES, 2 * LANES])
@pytest.mark.parametrize("rows", [2, 3, 8])
def test_a_pair_takes_as_many_instructions_as_a_row_alone(rows: int, lanes: int, gap: int) -> None:
    # LLVM may write a loop out as often as it likes; each turn has the same.
    a_turn = -(-rows // 2) * 2 * (lanes // LANES)
    found = _products(_kernel(rows, lanes=lanes, gap=gap))
    assert found > 0
    assert found % a_turn == 0
    assert found // a_turn in (1, STEPS)


def test_lines_that_pair_otherwise_stay_apart() -> None:
    register()
    # In loops of their own each is paired as it is; in one loop they disagree.
    apart = _kernel(4, orders=[(0, 1, 2, 3), (0, 2, 1, 3)])
    assert _exchanges(apart) == 2 * 2 + 2 * 2
    body = apart.body
    inner: list[Any] = []
    tir.stmt_functor.post_order_visit(
        body, lambda node: inner.append(node) if isinstance(node, tir.For) else None
    )
    turn = tir.Var("turn", "int32")
    both = tir.For(turn, 0, 2, tir.ForKind.SERIAL, tir.SeqStmt(inner))
    assert isinstance(body, tir.Allocate)
    together = tir.Allocate(body.buffer_var, body.dtype, body.extents, body.condition, both)
    # The outer loop's lines disagree, so its inner loops are taken by themselves.
    assert _exchanges(apart.with_body(together)) == 2 * 2 + 2 * 2


def test_sums_that_are_read_in_the_loop_stay_as_they_are() -> None:
    register()
    func = _kernel(2)
    _, _, out = (func.buffer_map[param] for param in func.params)

    def spoilt(node: Any) -> Any:
        sums = next(iter(_buffers(node)))
        read = store(out, 0, load(sums, 0, LANES), LANES)
        body = tir.SeqStmt([node.body, read])
        return tir.For(node.loop_var, node.min, node.extent, node.kind, body)

    body = tir.stmt_functor.ir_transform(func.body, None, spoilt, ["tir.For"])
    assert _exchanges(func.with_body(body)) == 0


def _buffers(loop: Any) -> list[Any]:
    """Return the buffers that a loop stores to."""
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        loop, lambda node: found.append(node.buffer) if isinstance(node, tir.BufferStore) else None
    )
    return found


@pytest.mark.parametrize("features", [{"aarch64", "dotprod"}, set(), {"avx512vnni", "avx512vl"}])
def test_nothing_changes_for_other_processors(features: set[str]) -> None:
    register()
    module = tvm.IRModule({"main": _kernel(2)})
    assert tvm.ir.structural_equal(pair_rows(instruction_of(features))(module), module)
