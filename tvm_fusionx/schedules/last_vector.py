"""The last vector of a row that vectors do not divide moves back, so that none needs a test.

Ninety-one elements in vectors of sixteen become 0..15, 16..31, ..., 64..79 and 75..90: five are
computed twice and written twice with one value. TVM would test every element, and a vector of
elements with tests of their own is no vector any more.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir


def move_last_vectors(func: Any) -> Any:
    """Return a scheduled `func` in which vectors that would pass the end of an axis move back.

    Left as they are: stages that accumulate, for which twice is wrong; stages that share the loop
    over the vectors with what they read or write; and axes shorter than a vector.
    """
    around: list[Any] = []

    def enter(loop: Any) -> None:
        around.append(loop)

    def leave(loop: Any) -> Any:
        around.pop()
        if loop.kind != tir.ForKind.VECTORIZED or not isinstance(loop.body, tir.BlockRealize):
            return None
        realize = _without_test(loop, loop.body, around)
        if realize is None:
            return None
        return tir.For(loop.loop_var, loop.min, loop.extent, loop.kind, realize)

    return func.with_body(tir.stmt_functor.ir_transform(func.body, enter, leave, ["tir.For"]))


def _without_test(loop: Any, realize: Any, around: list[Any]) -> Any | None:
    """Return the stage in a vector loop without its test, or None where it has to stay."""
    test, block = realize.predicate, realize.block
    if not isinstance(test, tir.LT) or not isinstance(test.b, tir.IntImm):
        return None
    analyzer = tvm.arith.Analyzer()
    lane, lanes, extent = loop.loop_var, int(loop.extent), int(test.b)
    start = analyzer.simplify(test.a - lane)
    if extent < lanes or _uses(start, lane):
        return None
    over = next((each for each in around if _uses(start, each.loop_var)), loop)
    if not _is_alone(block, over):
        return None
    position = tir.Var("position", lane.dtype)
    # As a minimum and not as a sum: of `16 * a + min(0, 1 - 16 * a) + lane < 16` TVM makes `a < 1`.
    moved = tir.min(start, tir.const(extent - lanes, lane.dtype)) + lane
    values = []
    for value in realize.iter_values:
        at = analyzer.simplify(tir.stmt_functor.substitute(value, {lane: position - start}))
        if not _uses(at, position):
            values.append(value)
            continue
        if any(_uses(at, each) for each in _variables(start)):
            return None
        values.append(tir.stmt_functor.substitute(at, {position: moved}))
    return tir.BlockRealize(values, tir.const(True, "bool"), block)


def _is_alone(block: Any, loop: Any) -> bool:
    """Tell whether in `loop` nothing else touches what a stage writes or writes what it reads.

    A stage that shares the loop has only the elements of one vector, and one that initialises or
    accumulates would do so again for those of the vector before.
    """
    read, written = _touched(block)
    others: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Block) and not node.same_as(block):
            others.append(node)

    tir.stmt_functor.post_order_visit(loop, visit)
    if block.init is not None or read & written:
        return False
    return not any(
        (read | written) & wrote or written & saw for saw, wrote in map(_touched, others)
    )


def _touched(block: Any) -> tuple[set[Any], set[Any]]:
    return (
        {region.buffer.data for region in block.reads},
        {region.buffer.data for region in block.writes},
    )


def _variables(expr: Any) -> list[Any]:
    return list(tir.analysis.undefined_vars(expr))


def _uses(expr: Any, variable: Any) -> bool:
    return any(variable.same_as(each) for each in _variables(expr))
