"""Express a stage in the axes of the stage that it reads."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.look_up import byte_looked_up


def inline_into_producer(sch: Any, name: str) -> bool:
    """Inline stage `name` into the one that it reads, where its index map has an inverse.

    TVM takes an index that is itself loaded (a gather's) for a constant, and leaves out the test of
    whether an element is the one that is picked; such a stage is left where it is.

    Returns
    -------
    bool
        Whether it was inlined.
    """
    block = sch.get_block(name)
    if _picks_by_value(sch.get(block).body):
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


def _loads(index: Any) -> bool:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        index, lambda node: found.append(node) if isinstance(node, tir.BufferLoad) else None
    )
    return bool(found)
