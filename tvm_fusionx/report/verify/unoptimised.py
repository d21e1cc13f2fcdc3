"""Plain TVM without any optimisation: what rewriting, fusion and templates are held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

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


def _without_quantised_operators(mod: tvm.IRModule) -> tvm.IRModule:
    """Return `mod` in Relay's arithmetic alone, which TVM leaves to its level 1 and above."""
    return relay.qnn.transform.CanonicalizeOps()(mod)
