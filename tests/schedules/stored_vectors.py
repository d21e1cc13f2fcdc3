"""How wide the vectors are that a function stores, once TVM has made vectors of its loops."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, BEFORE_VECTORS


def stored_widths(func: Any, *before_vectors: Any) -> list[int]:
    """Return the elements of each store of `func`, lowered with some passes of ours."""
    config = {ADD_LOWER_PASS: [(BEFORE_VECTORS, each) for each in before_vectors]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        lowered = tvm.lower(func)["main"]
    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore):
            found.append(tvm.DataType(node.value.dtype).lanes)

    tir.stmt_functor.post_order_visit(lowered.body, visit)
    return found
