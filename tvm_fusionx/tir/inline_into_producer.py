"""Express a stage in the axes of the stage that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import arith, tir

from tvm_fusionx.tir.look_up import byte_looked_up


def inline_into_producer(sch: Any, name: str) -> bool:
    """Inline stage `name` into the one that it reads, where its index map has an inverse.

    Where an index is a constant, of an axis of several elements, TVM leaves out the test of whether
    an element is the one that is picked, so that the last one would be stored; and it takes an
    index that is itself loaded (a gather's) for a constant. Such stages are left where they are.

    Returns
    -------
    bool
        Whether it was inlined.
    """
    block = sch.get_block(name)
    body = sch.get(block).body
    made = [region.buffer for each in sch.get_producers(block) for region in sch.get(each).writes]
    if _picks_by_value(body) or _picks_one(body, made):
        return False
    try:
        sch.reverse_compute_inline(block)
    except tvm.TVMError:
        return False
    return True


def _picks_by_value(body: Any) -> bool:
    """Tell whether an index of a load is itself loaded; what a byte becomes is no such load."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and byte_looked_up(node) is None:
            found.extend(index for index in node.indices if _loads(index))

    tir.stmt_functor.post_order_visit(body, visit)
    return bool(found)


def _picks_one(body: Any, buffers: Sequence[Any]) -> bool:
    """Tell whether a load of some buffers takes one of an axis's elements, always the same."""
    simplify = arith.Analyzer().simplify
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and any(map(node.buffer.same_as, buffers)):
            found.extend(
                index
                for index, extent in zip(node.indices, node.buffer.shape, strict=True)
                if int(extent) > 1 and isinstance(simplify(index), tir.IntImm)
            )

    tir.stmt_functor.post_order_visit(body, visit)
    return bool(found)


def _loads(index: Any) -> bool:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        index, lambda node: found.append(node) if isinstance(node, tir.BufferLoad) else None
    )
    return bool(found)
