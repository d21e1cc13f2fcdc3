"""The parts of a model for the virtual machine whose shapes are known, each built alone."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.passes.graph_pass import is_plain_function
from tvm_fusionx.passes.outline_static import OutlineStatic, why_not_static


def known_parts(mod: tvm.IRModule) -> dict[str, tvm.IRModule]:
    """Return each function whose shapes no data decides, as a module of its own, by its name.

    They are what the virtual machine runs between what the data decides, and all that templates
    serve of such a model.

    Parameters
    ----------
    mod
        A module whose parameters are bound as constants.
    """
    outlined = tvm.transform.Sequential([OutlineStatic()])(mod)
    return {
        variable.name_hint: tvm.IRModule.from_expr(_alone(func))
        for variable, func in outlined.functions.items()
        if is_plain_function(func) and why_not_static(func) is None
    }


def _alone(func: Any) -> Any:
    """Return a function whose parameters have names of their own, as an executor wants them."""
    taken: set[str] = set()
    fresh = {}
    for param in func.params:
        name = param.name_hint
        while name in taken:
            name += "_"
        taken.add(name)
        fresh[param] = relay.Var(name, param.checked_type)
    return relay.Function(list(fresh.values()), relay.bind(func.body, fresh), func.ret_type)
