"""Small buffers live on the stack, large ones in TVM's pool."""

from __future__ import annotations

import pytest
import tvm
from tvm import te

from tvm_fusionx.late_passes.small_buffers_on_stack import (
    MAX_STACK_BYTES,
    keep_small_buffers_on_stack,
)


def _uses_pool(elements: int) -> bool:
    x = te.placeholder((elements,), name="x")
    y = te.compute((elements,), lambda i: x[i] * 2.0, name="y")
    z = te.compute((elements,), lambda i: y[i] + y[elements - 1 - i], name="z")
    config = {"tir.add_lower_pass": [(3, keep_small_buffers_on_stack())]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = tvm.build(te.create_prim_func([x, z]), "llvm")
    return "WorkspaceAlloc" in library.get_source() or "AllocWorkspace" in library.get_source()


@pytest.mark.parametrize(("elements", "expected"), [(1024, False), (MAX_STACK_BYTES, True)])
def test_the_pool_serves_large_buffers_only(elements: int, expected: bool) -> None:
    assert _uses_pool(elements) == expected
