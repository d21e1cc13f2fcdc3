"""Decide once a vector what is the same for all of its elements.

TVM makes no vector of a condition on the loop that becomes one: ``256 <= 8 * i + lane`` leaves a
loop of single elements, although no vector has some elements on one side and some on the other.
Joints of whole vectors (concatenations, pads, the halves of a rotary embedding) are of this kind.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.index_maps import variables_of

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
    # Of integers, each comparison asks whether a number is below zero.
    low, high = compared.a, compared.b
    if isinstance(compared, tir.GT | tir.GE):
        low, high = high, low
    number = low - high - (1 if isinstance(compared, tir.LE | tir.GE) else 0)
    if lane not in variables_of(number) or not str(number.dtype).startswith("int"):
        return None
    # A straight line crosses zero once: where the outermost lanes agree, all do.
    linear = tvm.arith.detect_linear_equation(number, [lane])
    if not linear:
        return None
    analyzer = tvm.arith.Analyzer()
    at_first, at_last = (
        analyzer.simplify(tir.stmt_functor.substitute(compared, {lane: end}))
        for end in (first, last)
    )
    start = tir.stmt_functor.substitute(number, {lane: first})
    reach = analyzer.simplify(linear[0] * (last - first))
    is_one = tvm.ir.structural_equal(at_first, at_last) or _is_within_a_step(analyzer, start, reach)
    return at_first if is_one else None


def _is_within_a_step(analyzer: Any, start: Any, reach: Any) -> bool:
    """Tell whether `start` and `start + reach` lie between the same two multiples of a number.

    Zero is such a multiple, so that both are below it or neither.
    """
    known = analyzer.modular_set(start)
    if not isinstance(reach, tir.IntImm) or not int(known.coeff):
        return False
    return 0 <= int(known.base) % int(known.coeff) + int(reach) < int(known.coeff)
