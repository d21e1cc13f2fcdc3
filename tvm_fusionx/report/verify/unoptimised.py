"""Plain TVM without any optimisation: what rewriting, fusion and templates are held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.layout.single_blocks import computed_in_single, why_not_single
from tvm_fusionx.passes.graph_pass import is_plain_function
from tvm_fusionx.report.bench.plain_tvm import build_plain


def build_unoptimised(
    mod: tvm.IRModule, target: str | tvm.target.Target, params: Mapping[str, Any] | None = None
) -> Any:
    """Build `mod` with a kernel of TVM's own for every operator.

    Parameters
    ----------
    mod
        Operators of Relay, also quantised ones (``qnn``); typed. It is not changed.

    Returns
    -------
    GraphExecutorFactoryModule
    """
    return build_plain(_without_quantised_operators(mod), target, params, opt_level=0)


def build_in_single(
    mod: tvm.IRModule, target: str | tvm.target.Target, params: Mapping[str, Any] | None = None
) -> Any:
    """Build as :func:`build_unoptimised` does, but what a model has in 16 bits computed in float32.

    TVM's own kernels sum up in halves, and know no error function of them.
    """
    wide = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
    for variable, function in mod.functions.items():
        if is_plain_function(function) and why_not_single(function) is None:
            wide[variable] = computed_in_single(function)
    return build_unoptimised(relay.transform.InferType()(wide), target, params)


def narrowest_type(mod: tvm.IRModule) -> str:
    """Return the type that most digits are lost by, of what ``main`` takes, computes and gives."""
    main = mod["main"]
    kinds = {
        str(expr.checked_type.dtype)
        for expr in (*main.params, *post_order(main.body))
        if isinstance(expr.checked_type, relay.TensorType)
    }
    return next((narrow for narrow in ("bfloat16", "float16") if narrow in kinds), "float32")


def _without_quantised_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """Return `mod` in Relay's arithmetic alone, which TVM leaves to its level 1 and above."""
    return relay.qnn.transform.CanonicalizeOps()(mod)
