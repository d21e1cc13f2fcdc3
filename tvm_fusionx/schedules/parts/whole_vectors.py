"""A vector of which the last lanes may be left out: tested once, and not lane by lane.

What was padded to whole vectors or panels is cut off by a test of each element, which keeps a loop
over lanes from being one of vectors. The test of the last lane answers for all of them where it
asks whether a rising index is below a bound. A vector that passes it is stored as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tir
from tvm.tir.stmt_functor import substitute

from tvm_fusionx.schedules.parts.vectors import each_lane
from tvm_fusionx.tir.index_maps import variables_of


def whole_or_by_lane(lanes: int, stmt_of: Callable[[Any], Any]) -> Any:
    """Return what does `stmt_of` for each lane of a vector.

    Parameters
    ----------
    lanes
        Elements of the vector.
    stmt_of
        Makes a statement of a lane's number, which may be a test and what depends on it.
    """
    loop = each_lane(lanes, stmt_of)
    test = loop.body
    if not isinstance(test, tir.IfThenElse) or test.else_case is not None:
        return loop
    by_lane = tir.For(loop.loop_var, 0, lanes, tir.ForKind.UNROLLED, test)
    if not _falls(test.condition, loop.loop_var):
        return by_lane
    is_whole = substitute(test.condition, {loop.loop_var: tir.const(lanes - 1, "int32")})
    # Both loops with a variable of their own: one is a vector.
    vector = each_lane(lanes, lambda lane: substitute(test.then_case, {loop.loop_var: lane}))
    return tir.IfThenElse(is_whole, vector, by_lane)


def _falls(condition: Any, lane: Any) -> bool:
    """Tell whether a condition that holds for a lane holds for those before."""
    if not _depends(condition, lane):
        return True
    if isinstance(condition, tir.And):
        return _falls(condition.a, lane) and _falls(condition.b, lane)
    if isinstance(condition, tir.LT | tir.LE):
        return _rises(condition.a, lane) and not _depends(condition.b, lane)
    return False


def _rises(index: Any, lane: Any) -> bool:
    """Tell whether an index gets no smaller with the lane."""
    if index is lane or index.same_as(lane) or not _depends(index, lane):
        return True
    if isinstance(index, tir.Cast):
        return index.dtype in ("int32", "int64") and _rises(index.value, lane)
    if isinstance(index, tir.Add):
        return _rises(index.a, lane) and _rises(index.b, lane)
    if isinstance(index, tir.Mul):
        factors = sorted((index.a, index.b), key=lambda each: isinstance(each, tir.IntImm))
        return (
            isinstance(factors[1], tir.IntImm)
            and factors[1].value >= 0
            and _rises(factors[0], lane)
        )
    return False


def _depends(expr: Any, lane: Any) -> bool:
    return any(var.same_as(lane) for var in variables_of(expr))
