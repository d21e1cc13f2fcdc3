"""Keep small buffers on the stack."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import tir

# Larger buffers come from TVM's workspace pool, as usual. A thread of the pool has at least 1 MB
# of stack on Android and 8 MB on Linux.
MAX_STACK_BYTES = 32 * 1024

# TVM's kDisableLowerTVMBuiltin: leave this allocation to the code generator.
ON_STACK = "disable_lower_builtin"


def keep_small_buffers_on_stack() -> Any:
    """Return the TIR pass that allocates constant-size buffers up to 32 KB on the stack.

    TVM takes every buffer over 1 KB, and every register tile, from a pool: a call for each
    iteration of the loop around it, and a pointer that keeps LLVM from using registers.
    """

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.KeepSmallBuffersOnStack")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(
            tir.stmt_functor.ir_transform(func.body, None, _annotate, ["tir.Allocate"])
        )

    return run


def _annotate(node: Any) -> Any:
    if ON_STACK in node.annotations:
        return None
    if not all(isinstance(extent, tir.IntImm) for extent in node.extents):
        return None
    data_type = tvm.DataType(node.dtype)
    bytes_each = (data_type.bits * data_type.lanes + 7) // 8
    if math.prod(int(extent) for extent in node.extents) * bytes_each > MAX_STACK_BYTES:
        return None
    annotations = {**dict(node.annotations.items()), ON_STACK: tir.const(True, "bool")}
    return tir.Allocate(
        node.buffer_var, node.dtype, node.extents, node.condition, node.body, annotations
    )
