"""Blocks of tiny modules, as a report tells them."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import is_block_call, post_order


def block_call(body: Any, arguments: list[Any]) -> Any:
    """Return the typed call of one block: `body` over as many of its variables as `arguments`."""
    variables = relay.analysis.free_vars(body)
    ordered = sorted(variables, key=lambda each: str(each.name_hint))
    function = relay.Function(ordered, body).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    call = relay.Call(function, arguments)
    main = relay.Function(relay.analysis.free_vars(call), call)
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(main))
    (found,) = [expr for expr in post_order(typed["main"].body) if is_block_call(expr)]
    return found


def plain(function: Any) -> Any:
    """Return a function without its attributes."""
    return relay.Function(function.params, function.body, function.ret_type)
