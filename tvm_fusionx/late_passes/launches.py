"""What a host function launches on a device, read from its lowered form: no code is needed for it.

Where all shapes are known such a function only checks its arguments, takes memory of the device and
launches kernels one after the other, each over a grid that is constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.errors import TargetError
from tvm_fusionx.late_passes.workspaces import ALLOCATION, BYTES_ARGUMENT

LAUNCH_PARAMETERS = "tir.kernel_launch_params"
GROUP_AXES, ITEM_AXES = "blockIdx", "threadIdx"
AXES = ("x", "y", "z")
PACKED_CALL = "tir.tvm_call_packed_lowered"
SET_DEVICE = "__tvm_set_device"
# TVM's fields of a packed argument and of a tensor: kTVMValueContent and kArrData.
VALUE_FIELD, DATA_FIELD = 12, 1
_QUIET = ("tir.ret", "tir.tvm_throw_last_error", "tir.TVMBackendFreeWorkspace")


@dataclass(frozen=True)
class Operand:
    """What a launch is given: an argument of the host function, or memory that it takes.

    Attributes
    ----------
    number
        Of the argument, or of the memory, each counted from 0.
    is_workspace
        Which of them.
    """

    number: int
    is_workspace: bool = False


@dataclass(frozen=True)
class Launch:
    """One kernel over its grid: groups and items of a group along x, y and z."""

    kernel: str
    operands: tuple[Operand, ...]
    groups: tuple[int, int, int]
    items: tuple[int, int, int]


@dataclass(frozen=True)
class Launches:
    """All that a host function does on a device: bytes of each memory it takes, and launches."""

    workspaces: tuple[int, ...]
    launches: tuple[Launch, ...]


def launches_of(symbol: str, hosts: Mapping[str, Any], kernels: Mapping[str, Any]) -> Launches:
    """Return what the host function `symbol` launches.

    Parameters
    ----------
    hosts
        Lowered host functions, by symbol.
    kernels
        Lowered device functions, by symbol.

    Raises
    ------
    TargetError
        It does something else, as TVM's own sorts do, which compute on the host what they launch.
    """
    func = hosts.get(symbol)
    if func is None:
        raise _not_launches(symbol, "no function of this build")
    reader = _Reader(symbol, func, kernels)
    reader.statement(func.body)
    if reader.passed_on is not None:
        return launches_of(reader.passed_on, hosts, kernels)
    return Launches(tuple(reader.workspaces), tuple(reader.launches))


class _Reader:
    """Follows a host function's statements in the order in which they run."""

    def __init__(self, symbol: str, func: Any, kernels: Mapping[str, Any]) -> None:
        self.symbol = symbol
        self.kernels = kernels
        self.arguments = func.params[0]
        self.parameters = list(func.params)
        self.workspaces: list[int] = []
        self.launches: list[Launch] = []
        self.passed_on: str | None = None
        self._tensors: dict[Any, int] = {}
        self._known: dict[Any, Operand] = {}
        self._stack: dict[int, Any] = {}

    def statement(self, stmt: Any) -> None:
        """Follow one statement."""
        if isinstance(stmt, tir.SeqStmt):
            for each in stmt.seq:
                self.statement(each)
        elif isinstance(stmt, tir.LetStmt):
            self._bind(stmt.var, stmt.value)
            self.statement(stmt.body)
        elif isinstance(stmt, tir.Evaluate):
            self._evaluate(stmt.value)
        elif isinstance(stmt, tir.AssertStmt):
            self._note_passed_on(stmt.condition)
            self.statement(stmt.body)
        elif isinstance(stmt, (tir.AttrStmt, tir.DeclBuffer, tir.Allocate)):
            self.statement(stmt.body)
        elif isinstance(stmt, tir.IfThenElse):
            self._check_quiet(stmt)
        elif not isinstance(stmt, tir.BufferStore):
            raise _not_launches(self.symbol, f"a statement of kind {type(stmt).__name__}")

    def _bind(self, name: Any, value: Any) -> None:
        kind = getattr(getattr(value, "op", None), "name", "")
        if kind == "tir.tvm_struct_get":
            source, place, field = value.args[0], int(value.args[1]), int(value.args[2])
            if source.same_as(self.arguments) and field == VALUE_FIELD:
                self._tensors[name] = place
            elif source in self._tensors and field == DATA_FIELD:
                self._known[name] = Operand(self._tensors[source])
        elif kind == ALLOCATION:
            size = value.args[BYTES_ARGUMENT]
            if not isinstance(size, tir.IntImm):
                raise _not_launches(self.symbol, f"memory of {size} bytes")
            self._known[name] = Operand(len(self.workspaces), is_workspace=True)
            self.workspaces.append(int(size))

    def _evaluate(self, value: Any) -> None:
        kind = getattr(getattr(value, "op", None), "name", "")
        if kind == "tir.tvm_struct_set":
            if int(value.args[2]) == VALUE_FIELD:
                self._stack[int(value.args[1])] = value.args[3]
        elif kind == PACKED_CALL:
            self._launch(value)
        elif kind and kind not in _QUIET:
            raise _not_launches(self.symbol, f"a call of {kind}")

    def _launch(self, call: Any) -> None:
        name, begin, end = str(call.args[0].value), int(call.args[3]), int(call.args[4])
        if name == SET_DEVICE:
            return
        kernel = self.kernels.get(name)
        if kernel is None:
            raise _not_launches(self.symbol, f"a call of {name}")
        given = [self._stack[place] for place in range(begin, end)]
        axes = [str(each) for each in kernel.attrs[LAUNCH_PARAMETERS]]
        count = len(given) - len(axes)
        operands = []
        for value in given[:count]:
            operand = self._known.get(value) if isinstance(value, tir.Var) else None
            if operand is None:
                raise _not_launches(self.symbol, f"{name} with an argument {value}")
            operands.append(operand)
        extents = {
            axis: self._extent(value) for axis, value in zip(axes, given[count:], strict=True)
        }
        groups, items = _grid(extents, GROUP_AXES), _grid(extents, ITEM_AXES)
        if extents:
            raise _not_launches(self.symbol, f"{name} with {', '.join(extents)}")
        self.launches.append(Launch(name, tuple(operands), groups, items))

    def _extent(self, value: Any) -> int:
        while isinstance(value, tir.Cast):
            value = value.value
        if not isinstance(value, tir.IntImm):
            raise _not_launches(self.symbol, f"a grid of {value}")
        return int(value)

    def _note_passed_on(self, condition: Any) -> None:
        """Note the function that all arguments are passed on to: an equal one."""
        call: Any = getattr(condition, "a", None)
        if getattr(getattr(call, "op", None), "name", "") == "tir.call_extern":
            same = [
                one.same_as(two) for one, two in zip(call.args[1:], self.parameters, strict=True)
            ]
            if all(same):
                self.passed_on = str(call.args[0].value)

    def _check_quiet(self, stmt: Any) -> None:
        """Make sure that what depends on a condition is neither a launch nor an operand."""

        def check(node: Any) -> None:
            kind = getattr(getattr(node, "op", None), "name", "")
            if kind in (PACKED_CALL, ALLOCATION, "tir.tvm_struct_set"):
                raise _not_launches(self.symbol, "launches that a condition decides")

        tir.stmt_functor.post_order_visit(stmt, check)


def _grid(extents: dict[str, int], kind: str) -> tuple[int, int, int]:
    """Take the extents of one kind of axis out of those that are left."""
    x, y, z = (extents.pop(f"{kind}.{axis}", 1) for axis in AXES)
    return x, y, z


def _not_launches(symbol: str, found: str) -> TargetError:
    return TargetError(
        f"kernel {symbol}",
        expected="launches that are known before it runs",
        found=found,
        next_step="Run the model by TVM's executor, or cut it before this operator.",
    )
