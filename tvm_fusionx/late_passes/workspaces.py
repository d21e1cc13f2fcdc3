"""The memory that kernels ask for while they run, read from their lowered functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.errors import ShapeError

ALLOCATION = "tir.TVMBackendAllocWorkspace"
# TVM's kTempAllocaAlignment.
ALIGNMENT = 64
# Place of the number of bytes among the arguments of an allocation.
BYTES_ARGUMENT = 2


@dataclass(frozen=True)
class Workspace:
    """The bytes that one kernel asks for, at most, at one moment.

    Attributes
    ----------
    bytes
        By the thread that calls it.
    bytes_a_task
        More, by each task of its parallel loops.
    open_size
        What decides the number of bytes when the kernel runs, where that is not known before.
    """

    bytes: int = 0
    bytes_a_task: int = 0
    open_size: str = ""

    def with_tasks(self, tasks: int) -> int:
        """Return the bytes where a parallel loop is cut into so many tasks.

        Raises
        ------
        ShapeError
            The number is not known before the kernel runs.
        """
        if self.open_size:
            raise ShapeError(
                "the workspace of a kernel",
                expected="a number of bytes that is known before it runs",
                found=self.open_size,
                next_step="Plan memory for a model whose shapes do not depend on the data.",
            )
        return self.bytes + tasks * self.bytes_a_task


def workspaces_of(mod: tvm.IRModule) -> dict[str, Workspace]:
    """Return the workspace of each kernel that has one, by its symbol.

    Parameters
    ----------
    mod
        Fully lowered host functions, as handed to a code generator.
    """
    found = {}
    for variable, func in mod.functions.items():
        try:
            workspace = Workspace(*_needed(func.body))
        except _OpenSizeError as error:
            workspace = Workspace(open_size=str(error))
        if workspace != Workspace():
            found[str(variable.name_hint)] = workspace
    return found


class _OpenSizeError(Exception):
    """A kernel asks for bytes whose number depends on what it is given."""


def _needed(stmt: Any) -> tuple[int, int]:
    """Return what a statement needs: outside of parallel loops, and in each task of them.

    Statements are nested as deeply as the loops of a kernel, which are few.
    """
    if isinstance(stmt, tir.SeqStmt):
        parts = [_needed(each) for each in stmt.seq]
        return max(one for one, _ in parts), max(two for _, two in parts)
    if isinstance(stmt, tir.IfThenElse):
        parts = [_needed(each) for each in (stmt.then_case, stmt.else_case) if each is not None]
        return max(one for one, _ in parts), max(two for _, two in parts)
    if isinstance(stmt, tir.For) and stmt.kind == tir.ForKind.PARALLEL:
        return 0, sum(_needed(stmt.body))
    if isinstance(stmt, tir.LetStmt) and _is_allocation(stmt.value):
        outside, inside = _needed(stmt.body)
        return outside + _bytes(stmt.value), inside
    body = getattr(stmt, "body", None)
    return _needed(body) if isinstance(body, tir.Stmt) else (0, 0)


def _is_allocation(value: Any) -> bool:
    return isinstance(value, tir.Call) and getattr(value.op, "name", "") == ALLOCATION


def _bytes(call: Any) -> int:
    size = tvm.arith.Analyzer().simplify(call.args[BYTES_ARGUMENT])
    if not isinstance(size, tir.IntImm):
        raise _OpenSizeError(str(size))
    return -(-int(size) // ALIGNMENT) * ALIGNMENT
