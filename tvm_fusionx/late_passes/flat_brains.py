"""Flat arrays of bfloat16 whose extents the data decides, of a kind that TVM can rewrite.

TVM marks a parameter of open extents as one whose extents of 1 are read again and again, and its
flat form takes the mark over. The pass that makes 16-bit integers of bfloat16 declares the flat
form anew, and a buffer with the mark that has no strides gets a variable for them, which nothing
binds: LLVM ends with "cannot find variable stride". A flat buffer needs no mark.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.brain_floats import is_brain

# TVM's number of the mark.
_BROADCAST = 2
_KINDS = ["tir.BufferLoad", "tir.BufferStore", "tir.DeclBuffer"]


def unmark_flat_brains() -> Any:
    """Return the TIR pass; it runs where buffers are flat."""

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.UnmarkFlatBrains")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if not any(map(_is_marked, func.buffer_map.values())):
            return func
        plain: dict[Any, Any] = {}

        def unmarked(node: Any) -> Any:
            buffer = node.buffer
            if not _is_marked(buffer) or len(buffer.strides):
                return None
            if buffer not in plain:
                plain[buffer] = tir.decl_buffer(
                    buffer.shape, buffer.dtype, buffer.name, buffer.data, scope=buffer.scope()
                )
            if isinstance(node, tir.BufferLoad):
                return tir.BufferLoad(plain[buffer], node.indices)
            if isinstance(node, tir.BufferStore):
                return tir.BufferStore(plain[buffer], node.value, node.indices)
            return tir.DeclBuffer(plain[buffer], node.body)

        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, unmarked, _KINDS))

    return run


def _is_marked(buffer: Any) -> bool:
    return is_brain(buffer.dtype) and int(buffer.buffer_type) == _BROADCAST
