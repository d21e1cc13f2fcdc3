"""Loads and stores of neighbouring elements as vectors, where their indices hide that they are.

Of an image whose pixels are counted in one row, an index divides the pixel by the columns and takes
the remainder. The two together are the pixel again in the buffer's memory, which TVM does not see
once the pixel is a vector.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.index_maps import variables_of


def flat_place(access: Any) -> Any:
    """Return the place of a load or store in its buffer's memory, simplified."""
    place: Any = 0
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        place = place * int(extent) + index
    return tvm.arith.Analyzer().canonical_simplify(tvm.arith.Analyzer().simplify(place))


def step_of(access: Any, var: Any) -> int | None:
    """Return by how many elements an access moves with `var`, or None where that changes."""
    place = flat_place(access)
    if var not in variables_of(place):
        return 0
    linear = tvm.arith.detect_linear_equation(place, [var])
    if len(linear) == 0 or not isinstance(linear[0], tir.IntImm):
        return None
    return int(linear[0])


def accesses_of(stmt: Any) -> list[Any]:
    """Return the loads and stores of a statement."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore):
            found.append(node)

    tir.stmt_functor.post_order_visit(stmt, visit)
    return found


def decided(block: Any) -> Any:
    """Return a block whose body is simplified by the extents of its axes: idle tests are gone."""
    analyzer = tvm.arith.Analyzer()
    for it in block.iter_vars:
        analyzer.bind(it.var, it.dom)

    def simplified(stmt: Any) -> Any:
        if isinstance(stmt, tir.BufferStore):
            return tir.BufferStore(stmt.buffer, analyzer.simplify(stmt.value), stmt.indices)
        if isinstance(stmt, tir.IfThenElse) and stmt.else_case is None:
            test, stored = analyzer.simplify(stmt.condition), simplified(stmt.then_case)
            return stored if is_true(test) else tir.IfThenElse(test, stored, None)
        return stmt

    body = simplified(block.body)
    return tir.Block(block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init)


def is_true(test: Any) -> bool:
    """Tell whether a condition always holds, as written."""
    return isinstance(test, tir.IntImm) and bool(test)


def conditions_of(stmt: Any) -> list[Any]:
    """Return the conditions by which a statement chooses between values."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Select | tir.IfThenElse):
            found.append(node.condition)
        elif isinstance(node, tir.Call) and node.op.name == "tir.if_then_else":
            found.append(node.args[0])

    tir.stmt_functor.post_order_visit(stmt, visit)
    return found


def cases_of(value: Any) -> tuple[Any, Any, Any] | None:
    """Return condition and both values of a choice, or None when `value` is none."""
    if isinstance(value, tir.Select):
        return value.condition, value.true_value, value.false_value
    if isinstance(value, tir.Call) and value.op.name == "tir.if_then_else":
        condition, first, second = value.args
        return condition, first, second
    return None


def with_flat_access(stmt: Any, var: Any) -> Any:
    """Return `stmt` with every access that moves with `var` by its place in memory."""
    flat: dict[Any, Any] = {}

    def rewrite(node: Any) -> Any:
        if len(node.indices) == 1 or not any(var in variables_of(each) for each in node.indices):
            return None
        buffer = node.buffer
        if buffer.data not in flat:
            total = math.prod(int(extent) for extent in buffer.shape)
            flat[buffer.data] = tir.decl_buffer(
                [total], buffer.dtype, buffer.name, data=buffer.data
            )
        if isinstance(node, tir.BufferStore):
            return tir.BufferStore(flat[buffer.data], node.value, [flat_place(node)])
        return tir.BufferLoad(flat[buffer.data], [flat_place(node)])

    kinds = ["tir.BufferLoad", "tir.BufferStore"]
    return tir.stmt_functor.ir_transform(stmt, None, rewrite, kinds)
