"""Compile equal kernels once: a network repeats its layers, and compilers need not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tir

SYMBOL = "global_symbol"


def share_kernels(mod: tvm.IRModule, groups: Mapping[str, object]) -> tvm.IRModule:
    """Let every function that equals an earlier one call that one.

    Parameters
    ----------
    mod
        Fully lowered functions with a packed calling convention, as handed to a code generator.
    groups
        For the symbol of each function that may be shared, a key that equal functions share.

    Returns
    -------
    tvm.IRModule
        The same symbols; all but the first function of a group only pass their arguments on.
    """
    first: dict[object, Any] = {}
    functions = {}
    for variable, func in mod.functions.items():
        key = groups.get(variable.name_hint)
        original = first.get(key) if key is not None else None
        if original is None:
            functions[variable] = func
            if key is not None:
                first[key] = variable
        elif len(mod[original].params) == len(func.params):
            functions[variable] = passing_on(func, original.name_hint)
        else:
            functions[variable] = func
    return tvm.IRModule(functions, attrs=mod.attrs)


def share_device_kernels(mod: tvm.IRModule) -> tuple[tvm.IRModule, dict[str, str]]:
    """Leave out every device kernel that equals another.

    Parameters
    ----------
    mod
        Fully lowered device functions, as handed to a code generator.

    Returns
    -------
    mod
        The functions that differ.
    names
        For the symbol of each that was left out, that of the one to call instead.
    """
    known: dict[int, list[tuple[Any, Any]]] = {}
    functions = {}
    names: dict[str, str] = {}
    for variable, func in mod.functions.items():
        body = func.without_attr(SYMBOL)
        same = known.setdefault(tvm.ir.structural_hash(body), [])
        original = next((one for one, seen in same if tvm.ir.structural_equal(seen, body)), None)
        if original is None:
            functions[variable] = func
            same.append((variable, body))
        else:
            names[variable.name_hint] = original.name_hint
    return tvm.IRModule(functions, attrs=mod.attrs), names


def call_shared_kernels(mod: tvm.IRModule, names: Mapping[str, str]) -> tvm.IRModule:
    """Return host functions that call the kernels that were kept.

    Parameters
    ----------
    mod
        Fully lowered host functions.
    names
        From :func:`share_device_kernels`.
    """
    if not names:
        return mod

    def rename(node: Any) -> Any:
        kept = names.get(node.value)
        return None if kept is None else tir.StringImm(kept)

    functions = {
        variable: func.with_body(
            tir.stmt_functor.ir_transform(func.body, None, rename, ["tir.StringImm"])
        )
        for variable, func in mod.functions.items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def passing_on(func: tir.PrimFunc, symbol: str) -> tir.PrimFunc:
    """Return a packed function with the symbol of `func` that calls `symbol` with its arguments."""
    call = tir.call_extern("int32", symbol, *func.params)
    # TVM's code generator returns nothing but zero; a failed assertion is how it reports an error.
    success = tir.Evaluate(tir.ret(tir.const(0, "int32")))
    message = tir.StringImm(f"{symbol} refused its arguments")
    return func.with_body(tir.AssertStmt(tir.EQ(call, 0), message, success))
