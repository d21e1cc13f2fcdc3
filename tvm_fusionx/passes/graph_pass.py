"""Apply a function on graphs to every static function of a Relay module."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.ecg import Graph, NotAGraphError, from_relay
from tvm_fusionx.ecg.block_calls import STEERS

logger = logging.getLogger(__name__)


@interruptible()
@quick_calls()
def transform_graphs(mod: Any, transform: Callable[[str, Graph], Any]) -> Any:
    """Return a module with ``transform(name, graph)`` in the place of each static function.

    Parameters
    ----------
    mod
        Relay module; not changed.
    transform
        Given a function's name and graph, returns the Relay function to put there; None to leave
        it as it is.

    Returns
    -------
    mod
        Type-inferred module. Functions that are more than a static data-flow graph, and functions
        that another compiler has claimed, are as they were.
    """
    mod = relay.transform.InferType()(mod)
    out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
    for variable, func in mod.functions.items():
        if not is_plain_function(func):
            continue
        try:
            graph = from_relay(func)
        except NotAGraphError as error:
            logger.warning("%s stays as it is: %s", variable.name_hint, error)
            continue
        changed = transform(variable.name_hint, graph)
        if changed is not None:
            out[variable] = returning(changed, func.ret_type)
    return relay.transform.InferType()(out)


def returning(func: Any, kind: Any) -> Any:
    """Return `func` with its result's type: callers are typed before what they call, at times."""
    return relay.Function(func.params, func.body, kind, func.type_params, func.attrs, func.span)


def is_plain_function(func: Any) -> bool:
    """Tell whether a module's function is Relay that nobody has claimed yet, and computes."""
    return isinstance(func, relay.Function) and not any(
        name in (func.attrs or {}) for name in ("Primitive", "Compiler", STEERS)
    )


# What a function of blocks is made of; an `If`, a `Let` or a call of another function steers.
_DATA_FLOW = (
    relay.Var,
    relay.Constant,
    relay.Call,
    relay.Tuple,
    relay.TupleGetItem,
    relay.Function,
    tvm.ir.Op,
)


def is_data_flow(func: Any) -> bool:
    """Tell whether a module's function is Relay that nobody has claimed, and steers nothing."""
    if not is_plain_function(func) or STEERS in (func.attrs or {}):
        return False
    found = []

    def visit(expr: Any) -> None:
        if not isinstance(expr, _DATA_FLOW):
            found.append(expr)

    relay.analysis.post_order_visit(func.body, visit)
    return not found
