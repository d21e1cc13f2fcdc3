"""Take the shared operand of products from lanes of a vector, where multiply-adds can.

A register tile multiplies each vector of one side by an element of the other side, which is loaded
by itself and repeated in all lanes. Where the elements of successive terms lie side by side, and a
multiply-add takes an operand from a lane of a register (NEON's ``fmla v0.4s, v1.4s, v2.s[1]``), one
load gives the elements of several terms:

    for k in range(8):                        for k in range(2):
        s[0] += broadcast(a[k]) * w[k]   ->       s[0] += broadcast(a[4k : 4k + 4][0]) * w[4k]
                                                  ...
                                                  s[0] += broadcast(a[4k : 4k + 4][3]) * w[4k + 3]

It runs when loops are vectors, unrolled and flat: which template made the loop does not matter.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.flat_place import FlatPlace
from tvm_fusionx.tir.index_maps import variables_of

# What jumps, or does not evaluate all it has.
_BRANCHES = (tir.For, tir.While, tir.IfThenElse, tir.LetStmt, tir.Allocate, tir.Select, tir.Let)
_IF_THEN_ELSE = "tir.if_then_else"

Vector = tuple[Any, int]
"""Index of a vector's first element, and the lane."""


def index_lanes(lanes: int) -> Any:
    """Return the TIR pass that loads `lanes` shared floats at once, after lowering; halves twice.

    Loops over terms are written out `lanes` terms at a time; the terms that are left over have a
    loop of their own.
    """

    def in_loop(loop: Any) -> Any:
        is_counted = loop.kind == tir.ForKind.SERIAL and isinstance(loop.extent, tir.IntImm)
        if not is_counted or not _is_straight(loop.body):
            return None
        width = _lanes_of(loop.body, lanes)
        if int(loop.extent) >= width and _are_terms(loop):
            return _in_groups(loop, width)
        body = _with_lanes(loop.body, width)
        return None if body is None else _like(loop, loop.loop_var, loop.extent, body, loop.min)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.IndexLanes")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, in_loop, ["tir.For"]))

    return run


@dataclass(frozen=True)
class _Shared:
    """An element that multiplies a vector, as the loop has it."""

    load: Any
    cast: str | None
    """Type that it is converted to."""

    @property
    def place(self) -> FlatPlace:
        """Where the element lies."""
        return FlatPlace(self.load.buffer.data, self.load.indices[0])

    @staticmethod
    def of(node: Any) -> _Shared | None:
        """Return the element that `node` repeats in all lanes; None where it does nothing such."""
        if not isinstance(node, tir.Broadcast):
            return None
        value, cast = node.value, None
        if isinstance(value, tir.Cast):
            value, cast = value.value, str(value.dtype)
        is_element = isinstance(value, tir.BufferLoad) and len(value.indices) == 1
        is_float = "float" in node.dtype
        return _Shared(value, cast) if is_element and is_float else None

    def from_lane(self, vector: Vector, lanes: int, converted: _Converted) -> Any:
        """Return the element as a lane of a vector of `lanes` elements."""
        start, lane = vector
        value = converted.load(self, start)
        if value is None:
            value = self.vector(start, lanes)
        return tir.Shuffle([value], [lane])

    def vector(self, start: Any, lanes: int) -> Any:
        """Return the vector that begins at `start`, converted."""
        value = tir.BufferLoad(self.load.buffer, [tir.Ramp(start, 1, lanes)])
        return value if self.cast is None else tir.Cast(f"{self.cast}x{lanes}", value)


class _Converted:
    """Vectors of elements that are converted: each once, into a register that its lanes share.

    Written where a lane is taken, LLVM converts each lane by itself (``extractelement`` of a cast
    becomes a cast of ``extractelement``): four scalar conversions for one of a vector.
    """

    def __init__(
        self, shared: Iterable[_Shared], vectors: dict[FlatPlace, Vector], lanes: int
    ) -> None:
        self.lanes = lanes
        # All have one type: of another, which no template makes, the conversions stay in place.
        self.dtype = next((each.cast for each in shared if each.cast is not None), None)
        self.sources: dict[FlatPlace, tuple[_Shared, Any, int]] = {}
        for each in shared:
            if self.dtype is not None and each.cast == self.dtype and each.place in vectors:
                start, _ = vectors[each.place]
                place = FlatPlace(each.load.buffer.data, start)
                self.sources.setdefault(place, (each, start, len(self.sources)))
        size = max(1, len(self.sources)) * lanes
        self.buffer = tir.decl_buffer((size,), self.dtype or "float32", "lanes", scope="local")

    def load(self, shared: _Shared, start: Any) -> Any | None:
        """Return the vector that begins at `start`, where it was converted before."""
        if shared.cast is None or shared.cast != self.dtype:
            return None
        _, _, number = self.sources[FlatPlace(shared.load.buffer.data, start)]
        return tir.BufferLoad(self.buffer, [self._register(number)])

    def before(self, body: Any) -> Any:
        """Return `body` behind the conversions."""
        if not self.sources:
            return body
        stores = [
            tir.BufferStore(self.buffer, each.vector(start, self.lanes), [self._register(number)])
            for each, start, number in self.sources.values()
        ]
        whole = tir.SeqStmt([*stores, body])
        true = tir.const(1, "bool")
        return tir.Allocate(self.buffer.data, self.dtype, self.buffer.shape, true, whole)

    def _register(self, number: int) -> Any:
        return tir.Ramp(number * self.lanes, 1, self.lanes)


def _is_straight(body: Any) -> bool:
    """Tell whether a loop's body is stores alone, each of which evaluates all its loads."""
    jumps = []

    def visit(node: Any) -> None:
        is_choice = isinstance(node, tir.Call) and node.op.same_as(tvm.ir.Op.get(_IF_THEN_ELSE))
        if isinstance(node, _BRANCHES) or is_choice:
            jumps.append(node)

    tir.stmt_functor.post_order_visit(body, visit)
    return not jumps


def _shared(body: Any) -> list[_Shared]:
    """Return the elements that multiply vectors, of buffers that the loop does not write."""
    found: list[_Shared] = []
    written: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferStore):
            written.append(node.buffer.data)
        if isinstance(node, tir.Mul):
            found.extend(filter(None, map(_Shared.of, (node.a, node.b))))

    tir.stmt_functor.post_order_visit(body, visit)
    return [
        each for each in found if not any(each.load.buffer.data.same_as(data) for data in written)
    ]


def _lanes_of(body: Any, lanes: int) -> int:
    """Return the elements of a register of what is shared: of halves twice as many."""
    shared = _shared(body)
    are_halves = all(each.cast is None and each.load.dtype == "float16" for each in shared)
    return 2 * lanes if shared and are_halves else lanes


def _are_terms(loop: Any) -> bool:
    """Tell whether shared elements of successive iterations lie side by side."""
    var, analyzer = loop.loop_var, tvm.arith.Analyzer()

    def step(index: Any) -> Any:
        return tir.stmt_functor.substitute(index, {var: var + tir.const(1, var.dtype)}) - index

    indices = (each.load.indices[0] for each in _shared(loop.body))
    return any(
        var in variables_of(index) and analyzer.can_prove_equal(step(index), 1) for index in indices
    )


def _in_groups(loop: Any, lanes: int) -> Any:
    """Return the loop with `lanes` terms written out, and a loop of those that are left over."""
    whole, rest = divmod(int(loop.extent), lanes)
    group = tir.Var(loop.loop_var.name, loop.loop_var.dtype)
    terms = tir.SeqStmt([_term(loop, group * lanes + each) for each in range(lanes)])
    body = _with_lanes(terms, lanes)
    if body is None:
        return None
    stmt = _like(loop, group, tir.const(whole, group.dtype), body)
    if rest:
        last = tir.Var(loop.loop_var.name, loop.loop_var.dtype)
        body = _term(loop, last + whole * lanes)
        stmt = tir.SeqStmt([stmt, _like(loop, last, tir.const(rest, last.dtype), body)])
    return stmt


def _term(loop: Any, place: Any) -> Any:
    return tir.stmt_functor.substitute(loop.body, {loop.loop_var: loop.min + place})


def _like(loop: Any, var: Any, extent: Any, body: Any, first: Any | None = None) -> Any:
    first = tir.const(0, var.dtype) if first is None else first
    return tir.For(var, first, extent, loop.kind, body, None, loop.annotations)


def _with_lanes(body: Any, lanes: int) -> Any | None:
    """Return a straight line with all that can be taken from lanes; None where nothing can."""
    elements = _shared(body)
    vectors = _vectors(elements, lanes)
    if not vectors:
        return None
    converted = _Converted(elements, vectors, lanes)

    def replaced(node: Any) -> Any:
        shared = _Shared.of(node)
        vector = None if shared is None else vectors.get(shared.place)
        if shared is None or vector is None:
            return None
        return tir.Broadcast(shared.from_lane(vector, lanes, converted), node.lanes)

    changed = tir.stmt_functor.ir_transform(body, replaced, None, ["tir.Broadcast"])
    return converted.before(changed)


def _vectors(shared: Iterable[_Shared], lanes: int) -> dict[FlatPlace, Vector]:
    """Return the vector and the lane that each place can be taken from."""
    runs: dict[FlatPlace, dict[int, FlatPlace]] = collections.defaultdict(dict)
    for place in {each.place for each in shared}:
        offset = place.offset()
        if offset is not None:
            runs[place.before(offset)][offset] = place
    return {
        run[start + lane]: (run[start].index, lane)
        for run in runs.values()
        for start in _starts(run, lanes)
        for lane in range(lanes)
    }


def _starts(offsets: Iterable[int], lanes: int) -> Iterator[int]:
    """Return where `lanes` neighbouring offsets begin, those of one run apart from the others."""
    known, end = set(offsets), None
    for offset in sorted(known):
        is_taken = end is not None and offset < end
        if not is_taken and all(offset + lane in known for lane in range(lanes)):
            yield offset
            end = offset + lanes
