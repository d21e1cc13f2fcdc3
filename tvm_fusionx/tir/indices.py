"""Simplify the indices of an unscheduled PrimFunc: stages then inline without recomputation."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import ROOT_BLOCK


def simplify_indices(func: Any) -> Any:
    """Return `func` with every index simplified under the domains of its block variables.

    A reshape followed by a transpose leaves indices full of divisions; unless they are simplified,
    the access region of the pair looks like the whole tensor and the producer is recomputed.
    Unit-extent variables stay unbound: replacing them by 0 hides from TVM whose loop they are.
    """
    analyzer = tvm.arith.Analyzer()
    buffers = {buffer.data: buffer for buffer in func.buffer_map.values()}

    def bind(block: Any) -> None:
        for it in block.iter_vars:
            if int(it.dom.extent) > 1:
                analyzer.bind(it.var, it.dom)
        for buffer in block.alloc_buffers:
            buffers[buffer.data] = buffer

    def rewrite(node: Any) -> Any:
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(node.buffer, [analyzer.simplify(index) for index in node.indices])
        if isinstance(node, tir.BlockRealize):
            return None if node.block.name_hint == ROOT_BLOCK else _with_a_loop_each(node)
        if node.name_hint == ROOT_BLOCK:
            return None
        return _with_exact_regions(node, buffers)

    body = tir.stmt_functor.ir_transform(
        func.body, bind_only(bind), rewrite, ["tir.BufferLoad", "tir.Block", "tir.BlockRealize"]
    )
    return func.with_body(body)


def bind_only(bind: Any) -> Any:
    """Wrap `bind` as a pre-order callback that looks at blocks and changes nothing."""

    def before(node: Any) -> None:
        if isinstance(node, tir.Block):
            bind(node)

    return before


def _with_exact_regions(block: Any, buffers: dict[Any, Any]) -> Any:
    """Return `block` with its access regions computed again from its body."""
    parts = (
        block.name_hint,
        block.body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
    reads, writes, _ = tir.analysis.get_block_access_region(
        tir.Block(block.iter_vars, [], [], *parts), buffers
    )
    return tir.Block(block.iter_vars, reads, writes, *parts)


def _with_a_loop_each(realize: Any) -> Any:
    """Give every block variable bound to a constant a loop: schedules count on one for each.

    TVM binds the only variable of a zero-dimensional tensor's block to 0 without a loop.
    """
    values = list(realize.iter_values)
    added = []
    for position, value in enumerate(values):
        if isinstance(value, tir.IntImm):
            loop = tir.Var("unit", value.dtype)
            values[position] = loop
            added.append(loop)
    if not added:
        return None
    statement: Any = tir.BlockRealize(values, realize.predicate, realize.block)
    for loop in added:
        zero, one = tir.const(0, loop.dtype), tir.const(1, loop.dtype)
        statement = tir.For(loop, zero, one, tir.ForKind.SERIAL, statement)
    return statement
