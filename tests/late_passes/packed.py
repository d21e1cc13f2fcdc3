"""Functions of TensorIR as a code generator gets them."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_fusionx.late_passes.lower_kernel import lower_kernel


def packed(func: Any, target: str = "llvm") -> Any:
    """Return a function lowered, with the packed calling convention."""
    return lower_kernel(func, tvm.target.Target(target), "kernel")
