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
    over the vectors with what they read or write; stages that TVM may let write over what they
    read; and axes shorter than a vector.
    """
    around: list[Any] = []
    in_place = _InPlace(func)

    def enter(loop: Any) -> None:
        around.append(loop)

    def leave(loop: Any) -> Any:
        around.pop()
        if loop.kind != tir.ForKind.VECTORIZED or not isinstance(loop.body, tir.BlockRealize):
            return None
        realize = _without_test(loop, loop.body, around)
        if realize is None or in_place.may_write_over(loop.body, loop.loop_var):
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


class _InPlace:
    """Where TVM may give the result of a stage the memory of its operand, element by element.

    Computing an element twice then takes the result for the operand.
    """

    def __init__(self, func: Any) -> None:
        self.stages: list[Any] = []
        self.allocated: set[Any] = set()

        def visit(node: Any) -> None:
            if isinstance(node, tir.Block):
                self.allocated.update(buffer.data for buffer in node.alloc_buffers)
                if not _has_stages(node):
                    self.stages.append(node)

        tir.stmt_functor.post_order_visit(func.body, visit)

    def may_write_over(self, realize: Any, lane: Any) -> bool:
        """Tell whether a stage is the last to read a buffer along `lane`, into another buffer."""
        block = realize.block
        moving = [
            it.var
            for it, value in zip(block.iter_vars, realize.iter_values, strict=True)
            if _uses(value, lane)
        ]
        after = self._after(block)
        return any(
            write.buffer.data in self.allocated
            and read.buffer.data in self.allocated - after
            and read.buffer.dtype == write.buffer.dtype
            and any(_uses(each.min, axis) for each in read.region for axis in moving)
            for read in block.reads
            for write in block.writes
        )

    def _after(self, block: Any) -> set[Any]:
        """Return what the stages after one read."""
        places = (place for place, each in enumerate(self.stages) if each.same_as(block))
        at = next(places, len(self.stages))
        return {region.buffer.data for each in self.stages[at + 1 :] for region in each.reads}


def _has_stages(block: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, tir.BlockRealize)

    tir.stmt_functor.post_order_visit(block.body, visit)
    return found


def _touched(block: Any) -> tuple[set[Any], set[Any]]:
    return (
        {region.buffer.data for region in block.reads},
        {region.buffer.data for region in block.writes},
    )


def _variables(expr: Any) -> list[Any]:
    return list(tir.analysis.undefined_vars(expr))


def _uses(expr: Any, variable: Any) -> bool:
    return any(variable.same_as(each) for each in _variables(expr))
