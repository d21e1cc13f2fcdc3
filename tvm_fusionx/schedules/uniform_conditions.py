"""Decide once a vector what is the same for all of its elements.

TVM makes no vector of a condition on the loop that becomes one: ``256 <= 8 * i + lane`` leaves a
loop of single elements, although no vector has some elements on one side and some on the other.
Joints of whole vectors (concatenations, pads, the halves of a rotary embedding) are of this kind.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.access import variables_of

_COMPARISONS = ["tir.LT", "tir.LE", "tir.GT", "tir.GE"]


def decide_once_a_vector() -> Any:
    """Return the TIR pass that takes the lane out of comparisons which all lanes answer alike.

    It runs before TVM makes vectors of the loops.
    """

    def simplified(loop: Any) -> Any:
        if loop.kind != tir.ForKind.VECTORIZED or not isinstance(loop.extent, tir.IntImm):
            return None
        lane, last = loop.loop_var, loop.min + loop.extent - 1
        body = tir.stmt_functor.ir_transform(
            loop.body, None, lambda compared: _answer(compared, lane, loop.min, last), _COMPARISONS
        )
        return tir.For(lane, loop.min, loop.extent, loop.kind, body, None, loop.annotations)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.DecideOnceAVector")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(func.body, None, simplified, ["tir.For"])
        return func.with_body(body)

    return run


def _answer(compared: Any, lane: Any, first: Any, last: Any) -> Any:
    """Return what all lanes answer, without `lane`; None where they may differ."""
    difference = compared.a - compared.b
    if lane not in variables_of(difference) or not str(difference.dtype).startswith("int"):
        return None
    # A straight line crosses zero once: where the outermost lanes agree, all do.
    if not tvm.arith.detect_linear_equation(difference, [lane]):
        return None
    analyzer = tvm.arith.Analyzer()
    at_first, at_last = (
        analyzer.simplify(tir.stmt_functor.substitute(compared, {lane: end}))
        for end in (first, last)
    )
    return at_first if tvm.ir.structural_equal(at_first, at_last) else None
