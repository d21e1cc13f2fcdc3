from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.errors import ShapeError
from tvm_fusionx.late_passes.workspaces import Workspace, workspaces_of

PARALLEL, SERIAL = tir.ForKind.PARALLEL, tir.ForKind.SERIAL


def _allocated(size: Any, body: Any) -> Any:
    """Return `body` with a workspace of so many bytes, as TVM's lowering leaves it."""
    op = tvm.ir.Op.get("tir.TVMBackendAllocWorkspace")
    pointer = tir.Var("held", "handle")
    words = [1, 0, tir.const(size, "uint64") if isinstance(size, int) else size, 2, 32]
    return tir.LetStmt(pointer, tir.Call("handle", op, words), body)


def _loop(body: Any, kind: Any) -> Any:
    return tir.For(tir.Var("i", "int32"), 0, 8, kind, body)


WORK = tir.Evaluate(0)


def _of(body: Any) -> Workspace | None:
    func = tir.PrimFunc([], body)
    return workspaces_of(tvm.IRModule({"kernel": func})).get("kernel")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (WORK, None),
        (_allocated(640, WORK), Workspace(640, 0)),
        (_allocated(1, WORK), Workspace(64, 0)),
        (_allocated(640, _allocated(128, WORK)), Workspace(768, 0)),
        (tir.SeqStmt([_allocated(640, WORK), _allocated(128, WORK)]), Workspace(640, 0)),
        (_loop(_allocated(640, WORK), SERIAL), Workspace(640, 0)),
        (_loop(_allocated(640, WORK), PARALLEL), Workspace(0, 640)),
        (_allocated(64, _loop(_loop(_allocated(640, WORK), SERIAL), PARALLEL)), Workspace(64, 640)),
        (
            tir.IfThenElse(tir.const(True), _allocated(64, WORK), _allocated(128, WORK)),
            Workspace(128),
        ),
        (tir.IfThenElse(tir.const(True), WORK, None), None),
    ],
)
def test_the_most_that_is_held_at_one_moment(body: Any, expected: Workspace | None) -> None:
    assert _of(body) == expected


def test_each_task_has_its_own() -> None:
    assert Workspace(64, 640).with_tasks(3) == 64 + 3 * 640


def test_a_size_that_nobody_knows_is_refused() -> None:
    open_one = _of(_allocated(tir.Var("n", "uint64"), WORK))
    assert open_one == Workspace(open_size="n")
    with pytest.raises(ShapeError, match="known before it runs; found n"):
        open_one.with_tasks(2)


def test_what_tvm_lowers_is_read() -> None:
    held = tir.decl_buffer((100, 100), "float32")
    store = tir.BufferStore(held, 0.0, [0, 0])
    body = tir.Allocate(held.data, "float32", [100, 100], tir.const(True), store)
    target = tvm.target.Target("llvm", host="llvm")
    func = tir.PrimFunc(
        [], tir.AttrStmt(0, "device_id", 0, tir.AttrStmt(0, "device_type", 1, body))
    )
    mod = tvm.IRModule({"kernel": func.with_attr("target", target)})
    passes = [tir.transform.FlattenBuffer(), tir.transform.LowerTVMBuiltin()]
    lowered = tvm.transform.Sequential(passes)(mod)
    assert workspaces_of(lowered) == {"kernel": Workspace(40000, 0)}
