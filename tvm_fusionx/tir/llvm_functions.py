"""Functions in LLVM's assembly that a kernel brings along: what TIR has no word for."""

from __future__ import annotations

from typing import Any

from tvm import tir

IMPORT_LLVM = "pragma_import_llvm"


def with_llvm_functions(body: Any, code: str) -> Any:
    """Return statement `body` with the functions of `code`, which it calls by their names."""
    return tir.AttrStmt(tir.const(0, "int32"), IMPORT_LLVM, tir.StringImm(code), body)
