"""The root block of an unscheduled function: a sequence of loop nests and the buffers between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tir


def nests_of(func: Any) -> list[Any]:
    """Return the statements of the root block of `func`, in program order."""
    body = func.body.block.body
    return list(body.seq) if isinstance(body, tir.SeqStmt) else [body]


def with_root(func: Any, body: Any, buffers: Sequence[Any]) -> Any:
    """Return `func` with another body and other buffers of its root block.

    Parameters
    ----------
    body
        The statement in the place of the nests.
    buffers
        What the root block allocates.
    """
    root = func.body.block
    changed = tir.Block(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        body,
        root.init,
        buffers,
        root.match_buffers,
        root.annotations,
    )
    return func.with_body(tir.BlockRealize(func.body.iter_values, func.body.predicate, changed))


def written_buffer(func: Any, name: str) -> Any:
    """Return the first buffer that the block called `name` writes."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if node.name_hint == name:
            found.append(node.writes[0].buffer)

    tir.stmt_functor.ir_transform(func.body, visit, None, ["tir.Block"])
    return found[0]
