"""Straight lines of stores, as a lowered kernel has them, and who are neighbours there."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.flat_place import FlatPlace


def change_lines(name: str, change: Callable[[Sequence[Any]], Any | None]) -> Any:
    """Return the TIR pass `name` that changes each longest line of stores.

    Parameters
    ----------
    change
        Takes neighbouring ``tir.BufferStore`` statements; returns the statement that takes their
        place, or None to keep them.
    """

    def in_sequence(sequence: Any) -> Any:
        parts: list[Any] = []
        is_changed = False
        for line in _lines(sequence.seq):
            found = change(line) if isinstance(line[0], tir.BufferStore) else None
            is_changed |= found is not None
            parts += line if found is None else [found]
        if not is_changed:
            return None
        return parts[0] if len(parts) == 1 else tir.SeqStmt(parts)

    @tir.transform.prim_func_pass(opt_level=0, name=name)
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        body = tir.stmt_functor.ir_transform(func.body, None, in_sequence, ["tir.SeqStmt"])
        return func.with_body(body)

    return run


def _lines(statements: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield neighbouring stores together, and everything else alone."""
    line: list[Any] = []
    for stmt in statements:
        if isinstance(stmt, tir.BufferStore):
            line.append(stmt)
            continue
        if line:
            yield line
        yield [stmt]
        line = []
    if line:
        yield line


def vector_place(access: Any, lanes: int) -> FlatPlace | None:
    """Return where a load or store of `lanes` neighbours, all of them, begins; None of others."""
    if len(access.indices) != 1 or access.predicate is not None:
        return None
    (index,) = access.indices
    is_run = isinstance(index, tir.Ramp) and isinstance(index.stride, tir.IntImm)
    if not is_run or int(index.stride) != 1 or int(index.lanes) != lanes:
        return None
    return FlatPlace(access.buffer.data, index.base)


def neighbours(places: Iterable[FlatPlace], lanes: int) -> Iterator[tuple[FlatPlace, FlatPlace]]:
    """Yield places that lie `lanes` elements apart, two and two, each place once."""
    lines: dict[FlatPlace, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place in places:
        offset = place.offset()
        if offset is not None:
            lines[place.before(offset)][offset] = place
    for line in lines.values():
        taken = None
        for offset in sorted(line):
            if offset + lanes in line and offset != taken:
                taken = offset + lanes
                yield line[offset], line[taken]


def is_choice(node: Any) -> bool:
    """Tell whether an expression evaluates one of its sides alone."""
    if isinstance(node, tir.Select | tir.Let):
        return True
    return isinstance(node, tir.Call) and node.op.same_as(tvm.ir.Op.get("tir.if_then_else"))
