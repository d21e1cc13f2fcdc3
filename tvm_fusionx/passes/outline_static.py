"""Move what is static out of functions that are not, so that the other passes see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.registry import supply_shape_functions
from tvm_fusionx.ecg.block_calls import STEERS, operands_of, post_order
from tvm_fusionx.passes.graph_pass import is_plain_function


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.OutlineStatic")
@dataclass(frozen=True)
class OutlineStatic:
    """Make functions of static operators, called by what the data decides.

    Before::

        def @main(%x) { %0 = nn.conv2d(%x, %w); %1 = argwhere(%0); sum(%1) }

    After::

        def @main(%x) { %0 = @main_static_0(%x); %1 = argwhere(%0.0); sum(%1) }
        def @main_static_0(%x) { (nn.conv2d(%x, %w),) }
    """

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with more functions; one that is static is as it was."""
        mod = relay.transform.InferType()(mod)
        if not needs_run_time(mod):
            return mod
        supply_shape_functions()
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, func in mod.functions.items():
            if not is_plain_function(func) or why_not_static(func) is None:
                continue
            if all(_has_operands(expr) for expr in post_order(func.body)):
                outlined, made = outline(variable.name_hint, _with_vectors(func))
                for name, static in made.items():
                    out[name] = static
                out[variable] = outlined.with_attr(STEERS, 1)
        return relay.transform.InferType()(out)


def needs_run_time(mod: Any) -> bool:
    """Tell whether a typed module has shapes or control flow that the data decides."""
    functions = [func for func in mod.functions.values() if isinstance(func, relay.Function)]
    return any(STEERS in (func.attrs or {}) for func in functions) or any(
        why is not None and not is_named_call(why)
        for why in map(why_not_static, filter(is_plain_function, functions))
    )


def decided_by_data(mod: Any) -> tuple[str, str, str] | None:
    """Return what the data decides first in ``main``: operator, its ONNX node, and what it returns.

    None where nothing is; the node is empty where it is not known.
    """
    steering = {name for name, func in mod.functions.items() if STEERS in (func.attrs or {})}
    for expr in post_order(mod["main"].body):
        if isinstance(expr, relay.Call):
            is_steered = isinstance(expr.op, relay.GlobalVar) and expr.op in steering
            if not is_steered and not is_open_type(expr.checked_type):
                continue
            name = "If or Loop" if is_steered else getattr(expr.op, "name", "of a function")
        elif isinstance(expr, (relay.Var, relay.Constant, relay.Tuple, relay.TupleGetItem)):
            continue
        else:
            name = type(expr).__name__
        span = getattr(expr.span, "source_name", None)
        return name, "" if span is None else str(span.name), str(expr.checked_type)
    return None


def is_named_call(expr: Any) -> bool:
    """Tell whether `expr` calls a function of the module, which another compiler may have made."""
    return (
        isinstance(expr, relay.Call)
        and isinstance(expr.op, relay.GlobalVar)
        and not is_open_type(expr.checked_type)
    )


def why_not_static(func: Any) -> Any:
    """Return the first expression of a typed function that is not static data flow, or None.

    What is open goes before a call of another function.
    """
    found = [
        expr
        for expr in [*func.params, *post_order(func.body)]
        if not _is_data_flow(expr) or is_open_type(expr.checked_type)
    ]
    return min(found, key=is_named_call, default=None)


def is_open_type(kind: Any) -> bool:
    """Tell whether an extent in a type depends on the data."""
    if isinstance(kind, tvm.ir.TupleType):
        return any(map(is_open_type, kind.fields))
    return not isinstance(kind, tvm.ir.TensorType) or any(
        not isinstance(extent, tvm.tir.IntImm) for extent in kind.shape
    )


def _has_operands(expr: Any) -> bool:
    return isinstance(
        expr, (relay.Call, relay.Var, relay.Constant, relay.Tuple, relay.TupleGetItem)
    )


def _is_data_flow(expr: Any) -> bool:
    if isinstance(expr, relay.Call):
        return isinstance(expr.op, (tvm.ir.Op, relay.Function))
    return isinstance(expr, (relay.Var, relay.Constant, relay.Tuple, relay.TupleGetItem))


# Operators that TVM runs without a kernel.
RESHAPES = ("reshape", "dyn.reshape")

# ``tvm.relay.op.op.OpPattern``: operators up to this one stretch what has one element.
BROADCAST = 1


def _with_vectors(func: Any) -> Any:
    """Return `func` with a vector of one in the place of each number that an open operator takes.

    TVM asks shape functions for a shape of no extents there, and its memory planner gives one of
    none. What makes the vector is static: in the operator's own kernel it would change nothing.
    """
    changed: dict[Any, Any] = {param: param for param in func.params}
    for expr in post_order(func.body):
        rebuilt = _rebuilt(expr, changed)
        if isinstance(rebuilt, relay.Call) and is_open_type(expr.checked_type):
            pattern = expr.op.get_attr("TOpPattern") if isinstance(expr.op, tvm.ir.Op) else None
            if pattern is not None and pattern <= BROADCAST:
                operands = [
                    relay.reshape(made, (1,)) if _is_number(old) else made
                    for old, made in zip(expr.args, rebuilt.args, strict=True)
                ]
                rebuilt = relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
        changed[expr] = rebuilt
    func = relay.Function(
        func.params, changed[func.body], func.ret_type, func.type_params, func.attrs
    )
    return relay.transform.InferType()(tvm.IRModule({relay.GlobalVar("typed"): func}))["typed"]


def _is_number(expr: Any) -> bool:
    kind = expr.checked_type
    is_scalar = isinstance(kind, tvm.ir.TensorType) and not kind.shape
    return is_scalar and not isinstance(expr, relay.Constant)


def outline(name: str, func: Any) -> tuple[Any, dict[Any, Any]]:
    """Return `func` with calls of static functions in it, and these by their names.

    An operator belongs to the earliest function that can hold it: one behind all that the data
    decides among what it reads.
    """
    order = post_order(func.body)
    stages = _stages(order)
    chosen: dict[Any, Any] = {param: param for param in func.params}
    made: dict[Any, Any] = {}
    pending = {stage for stage in stages.values() if stage is not None}
    outer_users = _read_from_other_stages(order, stages, func.body)
    for stage in range(max(pending, default=-1) + 1):
        members = [expr for expr in order if stages[expr] == stage]
        results = [expr for expr in members if expr in outer_users]
        if results:
            # What this stage reads exists by now: it was rebuilt after the stage before.
            variable, static, arguments = _function(f"{name}_static_{stage}", members, results)
            made[variable] = static
            call = relay.Call(variable, [chosen[each] for each in arguments])
            for number, expr in enumerate(results):
                chosen[expr] = relay.TupleGetItem(call, number)
        _rebuild_open(order, stages, chosen)
    body = chosen[func.body] if func.body in chosen else _rebuilt(func.body, chosen)
    return relay.Function(func.params, body, func.ret_type, func.type_params, func.attrs), made


def _stages(order: list[Any]) -> dict[Any, int | None]:
    """Return the number of the static function that each expression belongs to; None for none.

    A tuple belongs nowhere: it is made anew by whoever reads it.
    """
    stages: dict[Any, int | None] = {}
    # The last static function that must have run before the value is there.
    after: dict[Any, int] = {}
    for expr in order:
        reads = list(operands_of(expr))
        after[expr] = max((after[each] for each in reads), default=-1)
        stages[expr] = None
        if isinstance(expr, relay.TupleGetItem):
            stages[expr] = stages[expr.tuple_value]
        elif isinstance(expr, relay.Call) and _is_static_call(expr, reads):
            leaves = [leaf for each in reads for leaf in _leaves(each)]
            stage = max(
                (after[leaf] + _is_behind(leaf, stages) for leaf in leaves),
                default=0,
            )
            stages[expr] = after[expr] = max(stage, 0)
    return stages


def _is_behind(leaf: Any, stages: dict[Any, int | None]) -> bool:
    """Tell whether what reads `leaf` must be in a later function than the last before it."""
    return stages[leaf] is None and not isinstance(leaf, (relay.Var, relay.Constant))


def _is_static_call(call: Any, reads: list[Any]) -> bool:
    return _is_data_flow(call) and not any(
        is_open_type(each.checked_type) for each in (call, *reads)
    )


def _leaves(expr: Any) -> Iterator[Any]:
    """Yield what is read, the fields in the place of a tuple."""
    if isinstance(expr, relay.Tuple):
        for field in expr.fields:
            yield from _leaves(field)
    else:
        yield expr


def _read_from_other_stages(
    order: list[Any], stages: dict[Any, int | None], result: Any
) -> set[Any]:
    """Return the expressions of static functions that something outside of them reads."""
    read = {leaf for leaf in _leaves(result) if stages.get(leaf) is not None}
    for expr in order:
        if isinstance(expr, relay.Tuple):
            continue
        for operand in operands_of(expr):
            for leaf in _leaves(operand):
                if stages.get(leaf) is not None and stages[leaf] != stages[expr]:
                    read.add(leaf)
    return read


def _function(name: str, members: list[Any], results: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Return name and function of `members`, and the expressions that it is to be given."""
    inside: dict[Any, Any] = {}
    arguments: list[Any] = []
    own = set(members)

    def enter(expr: Any) -> None:
        for operand in operands_of(expr):
            for leaf in _leaves(operand):
                if leaf in inside or leaf in own:
                    continue
                if isinstance(leaf, relay.Constant):
                    inside[leaf] = leaf
                else:
                    hint = leaf.name_hint if isinstance(leaf, relay.Var) else f"v{len(arguments)}"
                    inside[leaf] = relay.Var(hint, leaf.checked_type)
                    arguments.append(leaf)

    for expr in members:
        enter(expr)
        inside[expr] = _rebuilt(expr, inside)
    params = [inside[each] for each in arguments]
    result = relay.TupleType([each.checked_type for each in results])
    func = relay.Function(params, relay.Tuple([inside[each] for each in results]), result)
    kind = relay.FuncType([each.checked_type for each in arguments], result)
    return relay.GlobalVar(name, kind), func, arguments


def _rebuild_open(order: list[Any], stages: dict[Any, int | None], chosen: dict[Any, Any]) -> None:
    """Rebuild every expression of no static function whose operands exist by now."""
    for expr in order:
        if expr in chosen or stages[expr] is not None or isinstance(expr, relay.Tuple):
            continue
        leaves = [leaf for operand in operands_of(expr) for leaf in _leaves(operand)]
        if all(leaf in chosen or isinstance(leaf, relay.Constant) for leaf in leaves):
            rebuilt = _rebuilt(expr, chosen)
            chosen[expr] = _alone(expr, rebuilt) if _is_operator(expr) else rebuilt


def _is_operator(expr: Any) -> bool:
    return isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)


def _alone(typed: Any, call: Any) -> Any:
    """Return a call of an operator as one of a kernel, whose operands are all tensors.

    TVM would give a kernel the whole tuple that an operand is a field of, and its shape function
    the shapes of all fields; those of numbers it does not take.
    """
    params: list[Any] = []
    arguments: list[Any] = []

    def enter(old: Any, made: Any) -> Any:
        if isinstance(old, relay.Tuple):
            return relay.Tuple([enter(*pair) for pair in zip(old.fields, made.fields, strict=True)])
        if isinstance(old, relay.Constant) and not old.data.shape:
            return made
        params.append(relay.Var(f"p{len(params)}", old.checked_type))
        arguments.append(made)
        return params[-1]

    operands = [enter(*pair) for pair in zip(typed.args, call.args, strict=True)]
    body = relay.Call(call.op, operands, call.attrs, call.type_args, call.span)
    kernel = relay.Function(params, body, typed.checked_type).with_attr("Primitive", 1)
    if call.op.name in RESHAPES:
        kernel = kernel.with_attr("relay.reshape_only", 1)
    return relay.Call(kernel, arguments, span=call.span)


def _rebuilt(expr: Any, known: dict[Any, Any]) -> Any:
    """Return `expr` of the expressions that stand for its operands."""
    if expr in known or isinstance(expr, relay.Constant):
        return known.get(expr, expr)
    if isinstance(expr, relay.Tuple):
        return relay.Tuple([_rebuilt(field, known) for field in expr.fields], expr.span)
    if isinstance(expr, relay.TupleGetItem):
        return relay.TupleGetItem(_rebuilt(expr.tuple_value, known), expr.index, expr.span)
    operands = [_rebuilt(operand, known) for operand in expr.args]
    return relay.Call(expr.op, operands, expr.attrs, expr.type_args, expr.span)
