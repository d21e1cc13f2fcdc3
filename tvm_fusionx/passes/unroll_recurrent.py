"""Write recurrent layers step by step, where no kernel of ours takes them whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import operands_of, post_order
from tvm_fusionx.operators.recurrent_operator import RECURRENT, layer_of
from tvm_fusionx.rewrite.unrolled_recurrent import unrolled


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.UnrollRecurrent")
@dataclass(frozen=True)
class UnrollRecurrent:
    """Put operators of TVM's own in the place of recurrent layers: for targets that are no CPUs.

    Before::

        fusionx.recurrent(%shares, %weights, ...)

    After::

        %h1 = sigmoid(%share0 + nn.dense(%h0, %w)) ...; %h2 = ...; (stack(%h1, %h2, ...), ...)
    """

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module without recurrent layers; one that has none is as it was."""
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if isinstance(function, relay.Function) and _has_layer(function):
                out[variable] = _without_layers(function)
        return relay.transform.InferType()(out)


def _has_layer(function: relay.Function) -> bool:
    return any(
        isinstance(expr, relay.Call) and getattr(expr.op, "name", "") == RECURRENT
        for expr in post_order(function.body)
    )


def _without_layers(function: relay.Function) -> relay.Function:
    """Return a function with its layers unrolled; operands first, for graphs are deep."""
    known: dict[Any, Any] = {param: param for param in function.params}
    for expr in post_order(function.body):
        known[expr] = _changed(expr, known)
    return relay.Function(
        function.params, known[function.body], None, function.type_params, function.attrs
    )


def _changed(expr: Any, known: dict[Any, Any]) -> Any:
    operands = operands_of(expr)
    if not operands or all(known.get(each, each) is each for each in operands):
        is_layer = isinstance(expr, relay.Call) and getattr(expr.op, "name", "") == RECURRENT
        if not is_layer:
            return expr
    if isinstance(expr, relay.Tuple):
        return relay.Tuple([known[each] for each in expr.fields], expr.span)
    if isinstance(expr, relay.TupleGetItem):
        source = known[expr.tuple_value]
        is_known = isinstance(source, relay.Tuple)
        return source.fields[expr.index] if is_known else relay.TupleGetItem(source, expr.index)
    arguments = [known[each] for each in expr.args]
    if getattr(expr.op, "name", "") == RECURRENT:
        return unrolled(layer_of(expr.attrs), arguments)
    return relay.Call(expr.op, arguments, expr.attrs, expr.type_args, expr.span)
