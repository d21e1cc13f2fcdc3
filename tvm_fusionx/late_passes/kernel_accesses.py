"""How a lowered kernel reaches its arguments: stores, all that stands around them, and loads."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.late_passes.steal_work import pieces_of
from tvm_fusionx.tir.index_maps import variables_of

STRUCT_GET, ADDRESS = "tir.tvm_struct_get", "tir.address_of"
# TVM's kTVMValueContent and kArrData: an argument, and the memory of a tensor.
VALUE_CONTENT, ARRAY_DATA = 12, 1

# What computes each lane from the same lane of its operands.
LANE_NODES = (
    *(tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod, tir.Min, tir.Max),
    *(tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE, tir.And, tir.Or),
)
LANE_CALLS = frozenset(
    f"tir.{name}"
    for name in (
        *("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "pow", "fabs"),
        *("floor", "ceil", "round", "trunc", "nearbyint", "fmod", "isnan", "if_then_else"),
        *("likely", "shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"),
        *("bitwise_not", "fma", "copysign", "q_multiply_shift", "reinterpret"),
    )
)
INTRINSIC_CALLS = ("tir.call_llvm_pure_intrin", "tir.call_llvm_intrin")
LANE_INTRINSICS = frozenset(
    f"llvm.{name}"
    for name in (
        *("fma", "fmuladd", "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint"),
        *("round", "roundeven", "minnum", "maxnum", "minimum", "maximum", "copysign", "exp"),
        *("exp2", "log", "log2", "pow", "smin", "smax", "umin", "umax", "abs"),
        *("sadd.sat", "ssub.sat", "uadd.sat", "usub.sat"),
    )
)
# Where the arguments of an intrinsic begin, behind its number and their count.
FIRST_OPERAND = 2


@dataclass(frozen=True)
class Loop:
    """A variable that runs from `low` over `extent` numbers."""

    var: Any
    low: Any
    extent: Any


@dataclass(frozen=True)
class Let:
    """A variable that is `value`."""

    var: Any
    value: Any


@dataclass(frozen=True)
class Condition:
    """A condition that holds, or does not."""

    value: Any
    holds: bool


Around = tuple[Loop | Let | Condition, ...]


@dataclass
class Store:
    """A store of an argument.

    Attributes
    ----------
    node
        The ``BufferStore``.
    around
        Loops, variables and conditions that it stands in, the outermost first.
    loads
        Loads of arguments from which its value is computed lane by lane, and the arguments'
        numbers.
    """

    node: Any
    around: Around
    loads: list[tuple[int, Any]] = field(default_factory=list)


@dataclass
class Accesses:
    """All accesses of a kernel's arguments, by their numbers.

    Attributes
    ----------
    stores
        Of each argument that is stored to.
    readers
        For each argument that is loaded, of which arguments' stores its loads stand in the values.
    read_elsewhere
        Arguments with a load that stands anywhere else, or is not used lane by lane.
    exposed
        Arguments whose address goes to a function.
    """

    stores: dict[int, list[Store]] = field(default_factory=lambda: defaultdict(list))
    readers: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    read_elsewhere: set[int] = field(default_factory=set)
    exposed: set[int] = field(default_factory=set)


def accesses_of(func: Any) -> Accesses | None:
    """Return how a kernel reaches its arguments; None where it has a statement that is not known.

    Parameters
    ----------
    func
        A fully lowered host function with the packed calling convention.
    """
    walk = _Walk()
    waiting: list[tuple[Any, Around]] = [(func.body, ())]
    while waiting:
        stmt, around = waiting.pop()
        inner = walk.visit(stmt, around)
        if inner is None:
            return None
        waiting.extend(inner)
    return walk.found


class _Walk:
    """Visits statements; what they hold is returned to be visited next, from the last."""

    def __init__(self) -> None:
        self.found = Accesses()
        self._tensors: dict[Any, int] = {}
        self._numbers: dict[Any, int] = {}

    def visit(self, stmt: Any, around: Around) -> list[tuple[Any, Around]] | None:
        if isinstance(stmt, tir.SeqStmt):
            return [(each, around) for each in reversed(stmt.seq)]
        if isinstance(stmt, tir.BufferStore):
            self._store(stmt, around)
            return []
        if isinstance(stmt, tir.Evaluate):
            self._read(stmt.value)
            return []
        if isinstance(stmt, tir.IfThenElse):
            self._read(stmt.condition)
            cases = ((stmt.then_case, True), (stmt.else_case, False))
            return [
                (case, (*around, Condition(stmt.condition, holds)))
                for case, holds in cases
                if case is not None
            ]
        if isinstance(stmt, tir.For):
            return self._loop(stmt, around)
        if isinstance(stmt, tir.LetStmt):
            if not self._is_argument(stmt):
                self._read(stmt.value)
            return [(stmt.body, (*around, Let(stmt.var, stmt.value)))]
        if isinstance(stmt, tir.AssertStmt):
            # It may ask whether memory is there at all, which exposes nothing.
            self._read(stmt.condition, exposes=False)
            return [(stmt.body, around)]
        if isinstance(stmt, tir.AttrStmt):
            self._read(stmt.value)
            return [(stmt.body, around)]
        if isinstance(stmt, tir.Allocate | tir.AllocateConst | tir.DeclBuffer):
            return [(stmt.body, around)]
        return None

    def _loop(self, loop: Any, around: Around) -> list[tuple[Any, Around]]:
        pieces = pieces_of(loop)
        if pieces is not None:
            var, count, body = pieces
            return [(body, (*around, Loop(var, tir.const(0, "int32"), tir.const(count, "int32"))))]
        self._read(loop.min)
        self._read(loop.extent)
        return [(loop.body, (*around, Loop(loop.loop_var, loop.min, loop.extent)))]

    def _is_argument(self, stmt: Any) -> bool:
        """Note a variable that is an argument, or its memory; tell whether it is one."""
        value = stmt.value
        if not isinstance(value, tir.Call) or value.op.name != STRUCT_GET:
            return False
        source, index, kind = value.args[0], int(value.args[1]), int(value.args[2])
        if kind == VALUE_CONTENT:
            self._tensors[stmt.var] = index
        elif kind == ARRAY_DATA and source in self._tensors:
            self._numbers[stmt.var] = self._tensors[source]
        return True

    def _store(self, stmt: Any, around: Around) -> None:
        for index in stmt.indices:
            self._read(index)
        number = self._numbers.get(stmt.buffer.data)
        if number is None:
            self._read(stmt.value)
            return
        store = Store(stmt, around)
        self.found.stores[number].append(store)
        for load in self._loads_by_lane(stmt.value):
            operand = self._numbers.get(load.buffer.data)
            if operand is not None:
                store.loads.append((operand, load))
                self.found.readers[operand].add(number)

    def _loads_by_lane(self, value: Any) -> list[Any]:
        """Return the loads that a value has lane by lane, having noted all others as elsewhere."""
        found, named, others = [], set(), []
        waiting, seen = [value], set()
        while waiting:
            expr = waiting.pop()
            if expr in seen:
                continue
            seen.add(expr)
            if isinstance(expr, tir.BufferLoad):
                found.append(expr)
                for index in expr.indices:
                    self._read(index)
                continue
            operands = _lane_operands(expr)
            if operands is None:
                self._read(expr)
                others.append(expr)
                continue
            if isinstance(expr, tir.Let):
                named.add(expr.var)
            waiting.extend(operands)
        # What has a name may be used in other ways than by lane.
        indices = [index for load in found for index in load.indices]
        if any(_names_one_of(named, each) for each in (*others, *indices)):
            self._read(value)
        return found

    def _read(self, expr: Any, *, exposes: bool = True) -> None:
        """Note every load in an expression as read elsewhere, and every address as exposed."""
        if isinstance(expr, tir.IntImm | tir.FloatImm):
            return

        def visit(node: Any) -> None:
            if isinstance(node, tir.BufferLoad):
                number = self._numbers.get(node.buffer.data)
                if number is not None:
                    self.found.read_elsewhere.add(number)
            elif isinstance(node, tir.Var) and exposes:
                number = self._numbers.get(node)
                if number is not None:
                    self.found.exposed.add(number)
            elif isinstance(node, tir.Call) and node.op.name == ADDRESS:
                number = self._numbers.get(node.args[0].buffer.data)
                if number is not None:
                    self.found.exposed.add(number)

        tir.stmt_functor.post_order_visit(expr, visit)


def _names_one_of(named: set[Any], expr: Any) -> bool:
    """Tell whether an expression, more than a name itself, holds one of the names."""
    return (
        bool(named)
        and not isinstance(expr, tir.Var)
        and any(var in named for var in variables_of(expr))
    )


def _lane_operands(expr: Any) -> list[Any] | None:
    """Return the operands of what computes lane by lane; None of anything else."""
    if isinstance(expr, LANE_NODES):
        return [expr.a, expr.b]
    if isinstance(expr, tir.Not):
        return [expr.a]
    if isinstance(expr, tir.Cast):
        return [expr.value]
    if isinstance(expr, tir.Select):
        return [expr.condition, expr.true_value, expr.false_value]
    if isinstance(expr, tir.Let):
        return [expr.value, expr.body]
    if not isinstance(expr, tir.Call):
        return None
    name = str(getattr(expr.op, "name", ""))
    operands = list(expr.args)
    if name in INTRINSIC_CALLS:
        called = tvm.target.codegen.llvm_get_intrinsic_name(int(expr.args[0]))
        name, operands = str(called), operands[FIRST_OPERAND:]
        if name not in LANE_INTRINSICS:
            return None
    elif name not in LANE_CALLS:
        return None
    lanes = tvm.DataType(expr.dtype).lanes
    is_by_lane = all(tvm.DataType(each.dtype).lanes in (1, lanes) for each in operands)
    return operands if is_by_lane else None
