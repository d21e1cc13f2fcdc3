"""Products of halves that are added to sums of float32, by instructions that take halves.

A kernel widens the halves that it loads, and multiplies float32. Arm's `fmlal` multiplies four
halves of the lower half of a register by four of another's, and adds the products to four sums of
float32; `fmlal2` takes the upper halves. A product of two halves is exact in float32, so the sums
are the same numbers::

    s[0] += float32(x[i : i + 4]) * float32(w)         two = x[i : i + 8];  both = w w
    s[1] += float32(x[i + 4 : i + 8]) * float32(w)  -> s[0] = fmlal(s[0], two, both)
                                                       s[1] = fmlal2(s[1], two, both)

Of the two tensors that a straight line multiplies, neighbouring vectors of the one that has more
of them are one load, and no vector is widened; those of the other fill both halves of a register.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.straight_lines import change_lines, neighbours, vector_place
from tvm_fusionx.tir.flat_place import FlatPlace

SINGLE, HALF = "float32", "float16"

# Sums of one instruction, and halves of a register.
LANES = 4
REGISTER = 2 * LANES

_LOWER, _UPPER = "llvm.aarch64.neon.fmlal.v4f32.v8f16", "llvm.aarch64.neon.fmlal2.v4f32.v8f16"


@dataclass(frozen=True)
class _Product:
    """A store of a product of two vectors of halves, added to a sum or to nothing."""

    store: Any
    total: Any | None
    sides: tuple[FlatPlace, FlatPlace]
    loads: tuple[Any, Any]


def add_half_products() -> Any:
    """Return the TIR pass that adds products of halves as they are, after lowering; for AArch64."""
    return change_lines("tvm_fusionx.AddHalfProducts", _multiplied)


def _multiplied(line: Sequence[Any]) -> Any | None:
    """Return a line of stores whose products take halves; None where it has none."""
    written = [stmt.buffer.data for stmt in line]
    products = {
        number: product
        for number, stmt in enumerate(line)
        if (product := _product(stmt)) is not None
        and not any(place.data.same_as(data) for place in product.sides for data in written)
    }
    registers = _Registers.of(products.values())
    if registers is None:
        return None
    stmts: list[Any] = []
    for number, stmt in enumerate(line):
        product = products.get(number)
        called = None if product is None else registers.call(product)
        if called is None:
            stmts.append(stmt)
            continue
        stmts += called[0]
        stmts.append(tir.BufferStore(stmt.buffer, called[1], stmt.indices))
    body = tir.SeqStmt(stmts)
    buffer = registers.buffer
    return tir.Allocate(buffer.data, HALF, buffer.shape, tir.const(1, "bool"), body)


class _Registers:
    """The registers of halves of a line: pairs of neighbours, and vectors that fill both halves."""

    def __init__(self, paired: Any, loads: Mapping[FlatPlace, Any]) -> None:
        self.paired, self.loads = paired, loads
        apart = [place for place in loads if place.data.same_as(paired)]
        pairs = list(neighbours(apart, LANES))
        self.halves = {
            place: (pair[0], upper) for pair in pairs for upper, place in enumerate(pair)
        }
        self.numbers: dict[FlatPlace, int] = {}
        for place in loads:
            self.numbers.setdefault(self._first(place), len(self.numbers))
        size = len(self.numbers) * REGISTER
        self.buffer = tir.decl_buffer((size,), HALF, "halves", scope="local")
        self.filled: set[FlatPlace] = set()

    @staticmethod
    def of(products: Iterable[_Product]) -> _Registers | None:
        """Return the registers of a line's products; None where none are of two tensors."""
        loads: dict[FlatPlace, Any] = {}
        tensors: dict[Any, set[FlatPlace]] = {}
        for product in products:
            for place, load in zip(product.sides, product.loads, strict=True):
                loads.setdefault(place, load)
                tensors.setdefault(place.data, set()).add(place)
        if len(tensors) != 2:
            return None
        paired = max(tensors, key=lambda data: len(tensors[data]))
        made = _Registers(paired, loads)
        return made if made.halves else None

    def call(self, product: _Product) -> tuple[list[Any], Any] | None:
        """Return what fills the registers of a product, and its sum; None where they are no two."""
        one, other = product.sides
        if one.data.same_as(other.data):
            return None
        if not one.data.same_as(self.paired):
            one, other = other, one
        fills = [stmt for place in (one, other) for stmt in self._fill(place)]
        _, upper = self.halves.get(one, (one, 0))
        total = product.total
        start = tir.Broadcast(tir.const(0, SINGLE), LANES) if total is None else total
        operands = start, self._register(one), self._register(other)
        name, count = (_UPPER if upper else _LOWER), tir.const(len(operands), "uint32")
        return fills, tir.call_llvm_pure_intrin(f"{SINGLE}x{LANES}", name, count, *operands)

    def _first(self, place: FlatPlace) -> FlatPlace:
        return self.halves.get(place, (place, 0))[0]

    def _index(self, place: FlatPlace) -> Any:
        return tir.Ramp(self.numbers[self._first(place)] * REGISTER, 1, REGISTER)

    def _register(self, place: FlatPlace) -> Any:
        return tir.BufferLoad(self.buffer, [self._index(place)])

    def _fill(self, place: FlatPlace) -> list[Any]:
        """Return the statement that loads a register, where it was not loaded before."""
        first = self._first(place)
        if first in self.filled:
            return []
        self.filled.add(first)
        load = self.loads[first]
        places = list(range(REGISTER))
        if place in self.halves:
            whole = tir.Ramp(load.indices[0].base, 1, REGISTER)
            value = tir.BufferLoad(load.buffer, [whole])
        elif place.data.same_as(self.paired):
            # A load of half a register leaves zeros in the other.
            zeros = tir.Broadcast(tir.const(0, HALF), LANES)
            value = tir.Shuffle([load, zeros], places)
        else:
            value = tir.Shuffle([load, load], places)
        return [tir.BufferStore(self.buffer, value, [self._index(place)])]


def _product(store: Any) -> _Product | None:
    """Return a store as a product of two vectors of halves; None of any other."""
    value, total = store.value, None
    if str(value.dtype) != f"{SINGLE}x{LANES}" or store.buffer.scope() != "local":
        return None
    if isinstance(value, tir.Add):
        total, value = (value.b, value.a) if _is_sum(value.b, store) else (value.a, value.b)
        if not _is_sum(total, store):
            return None
    if not isinstance(value, tir.Mul):
        return None
    left, right = _halves(value.a), _halves(value.b)
    if left is None or right is None:
        return None
    one, other = vector_place(left, LANES), vector_place(right, LANES)
    if one is None or other is None:
        return None
    return _Product(store, total, (one, other), (left, right))


def _is_sum(expr: Any, store: Any) -> bool:
    """Tell whether an expression is what a store's place holds."""
    return (
        isinstance(expr, tir.BufferLoad)
        and expr.buffer.data.same_as(store.buffer.data)
        and bool(tvm.ir.structural_equal(expr.indices, store.indices))
    )


def _halves(expr: Any) -> Any | None:
    """Return the load of halves that an expression widens; None of any other."""
    load = expr.value if isinstance(expr, tir.Cast) else None
    is_load = isinstance(load, tir.BufferLoad) and str(load.dtype) == f"{HALF}x{LANES}"
    return load if is_load else None
