"""The mark on weights whose products may be summed up in halves, as an operator.

It gives its operand. The stage that it becomes says how many terms a sum of halves has at most;
:mod:`tvm_fusionx.tir.half_terms` takes it away again, so that no kernel has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay, te
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.tir.half_terms import HALF_ADDEND, HALF_TERMS, Mark

MARK = "fusionx.half_terms"


def register_half_terms() -> None:
    """Make the operator known to Relay; idempotent."""
    register_operator(
        MARK,
        {"weights": "What is multiplied."},
        _compute,
        pattern=OpPattern.ELEMWISE,
        type_relation="Identity",
        attributes="DictAttrs",
    )


def marked(weights: relay.Expr, mark: Mark) -> relay.Expr:
    """Return `weights` with a mark."""
    attrs = tvm.ir.make_node("DictAttrs", **{HALF_TERMS: mark.terms, HALF_ADDEND: int(mark.adds)})
    return relay.Call(relay.op.get(MARK), [weights], attrs)


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    (weights,) = inputs
    told = {key: tvm.tir.IntImm("int32", int(attrs[key])) for key in (HALF_TERMS, HALF_ADDEND)}
    return [te.compute(weights.shape, lambda *at: weights(*at), name="marked", attrs=told)]
