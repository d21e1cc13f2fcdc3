"""Copies within a kernel of what lies in memory as bfloat16: kept as they lie.

A kernel of a block in half precision widens what it loads. A stage that only lays elements
elsewhere would fill an array of float32; where an instruction multiplies bfloat16, the array holds
the bits::

    laid[i] = widened(x[j])            laid[i] = bits of x[j]
    ... widened products: laid[i]  ->  ... widened(laid[i])

TVM makes float32 of arrays of bfloat16 within a kernel, but leaves 16-bit integers alone.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.brain_floats import BITS, bits_of, narrow_of, widened
from tvm_fusionx.tir.flat_access import cases_of

_KINDS = ["tir.BufferLoad", "tir.BufferStore", "tir.Block"]


def with_narrow_copies(func: Any) -> Any:
    """Return a scheduled block whose arrays of widened elements hold their bits.

    Parameters
    ----------
    func
        Its parameters lie in memory as they are stored.
    """
    copies = _copies_of(func)
    if not copies:
        return func

    def rewritten(node: Any) -> Any:
        if isinstance(node, tir.Block):
            return _with_buffers(node, copies)
        buffer = copies.get(node.buffer.data)
        if buffer is None:
            return None
        if isinstance(node, tir.BufferLoad):
            return widened(tir.BufferLoad(buffer, node.indices))
        return tir.BufferStore(buffer, _bits(node.value), node.indices)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, None, rewritten, _KINDS))


def _bits(value: Any) -> Any | None:
    """Return the bits of what a widened element is, of zero, or of a choice of such; else None."""
    narrow = narrow_of(value)
    if narrow is not None:
        return bits_of(narrow)
    if isinstance(value, tir.FloatImm):
        return tir.const(0, BITS) if value.value == 0 else None
    cases = cases_of(value)
    if cases is None:
        return None
    condition, *sides = cases
    first, second = map(_bits, sides)
    if first is None or second is None:
        return None
    if isinstance(value, tir.Select):
        return tir.Select(condition, first, second)
    return tir.if_then_else(condition, first, second)


def _copies_of(func: Any) -> dict[Any, Any]:
    """Return what takes the place of each array that only holds widened elements, by its data."""
    arrays: dict[Any, Any] = {}
    others: set[Any] = {buffer.data for buffer in func.buffer_map.values()}

    def visit(node: Any) -> None:
        if isinstance(node, tir.Block):
            arrays.update({buffer.data: buffer for buffer in node.alloc_buffers})
            others.update(each.buffer.data for each in node.match_buffers)
            others.update(each.source.buffer.data for each in node.match_buffers)
        elif isinstance(node, tir.BufferStore) and _bits(node.value) is None:
            others.add(node.buffer.data)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return {
        data: _of_bits(buffer)
        for data, buffer in arrays.items()
        if data not in others and str(buffer.dtype) == "float32"
    }


def _of_bits(buffer: Any) -> Any:
    kind = tvm.ir.PointerType(tvm.ir.PrimType(BITS), buffer.scope())
    data = tir.Var(buffer.data.name, kind)
    return tir.decl_buffer(buffer.shape, BITS, buffer.name, data)


def _with_buffers(block: Any, copies: dict[Any, Any]) -> Any:
    def taken(buffer: Any) -> Any:
        return copies.get(buffer.data, buffer)

    def moved(regions: Any) -> list[Any]:
        return [tir.BufferRegion(taken(each.buffer), each.region) for each in regions]

    return tir.Block(
        block.iter_vars,
        moved(block.reads),
        moved(block.writes),
        block.name_hint,
        block.body,
        block.init,
        [taken(each) for each in block.alloc_buffers],
        block.match_buffers,
        block.annotations,
    )
