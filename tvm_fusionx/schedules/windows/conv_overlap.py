"""Cover output columns that a tile does not divide: the last tile moves left and overlaps.

Thirteen columns in tiles of seven become columns 0..6 and 6..12: column 6 is computed twice and
written twice with the same value, and no tile needs a test or a second, narrower loop body.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.root_block import nests_of, with_root, written_buffer

# Position of the columns among the axes of NCHWc data.
COLUMN_AXIS = 3


def overlap_columns(func: Any, reduce: str, write: str, columns: int) -> Any:
    """Widen the column axis of stages `reduce` and `write` to a multiple of `columns`.

    Parameters
    ----------
    func
        A function of isolated stages: `reduce` writes a local tensor, only `write` reads it.
    reduce, write
        Names of the stages.
    columns
        Columns of a tile; at most the columns of the tensor.

    Returns
    -------
    tir.PrimFunc
        The same function, in which column ``j`` of the local tensor stands for column
        ``min(j // columns * columns, width - columns) + j % columns``.
    """
    root = func.body.block
    narrow = written_buffer(func, reduce)
    width = int(narrow.shape[COLUMN_AXIS])
    widened = -(-width // columns) * columns
    shape = list(narrow.shape)
    shape[COLUMN_AXIS] = tir.const(widened, shape[COLUMN_AXIS].dtype)
    wide = tir.decl_buffer(shape, narrow.dtype, narrow.name, scope=narrow.scope())
    buffers = {buffer.data: buffer for buffer in [*func.buffer_map.values(), *root.alloc_buffers]}
    buffers[wide.data] = wide

    def rebuild(block: Any) -> Any:
        column = block.iter_vars[COLUMN_AXIS].var
        start = tir.Min(
            tir.floordiv(column, columns) * columns, tir.const(width - columns, column.dtype)
        )
        moved = start + tir.floormod(column, columns)
        changed = _Redirect(narrow, wide, column, moved)
        iters = [
            _widen(it, widened) if axis == COLUMN_AXIS else it
            for axis, it in enumerate(block.iter_vars)
        ]
        parts = (
            block.name_hint,
            changed(block.body),
            None if block.init is None else changed(block.init),
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )
        reads, writes, _ = tir.analysis.get_block_access_region(
            tir.Block(iters, [], [], *parts), buffers
        )
        return tir.Block(iters, reads, writes, *parts)

    def rewrite_nest(nest: Any) -> Any:
        loops = []
        body = nest
        while isinstance(body, tir.For):
            loops.append(body)
            body = body.body
        if not isinstance(body, tir.BlockRealize) or body.block.name_hint not in (reduce, write):
            return nest
        column_loop = body.iter_values[COLUMN_AXIS]
        result: Any = tir.BlockRealize(body.iter_values, body.predicate, rebuild(body.block))
        for loop in reversed(loops):
            is_column = loop.loop_var.same_as(column_loop)
            extent = tir.const(widened, loop.extent.dtype) if is_column else loop.extent
            result = tir.For(loop.loop_var, loop.min, extent, loop.kind, result)
        return result

    allocated = [wide if buffer.same_as(narrow) else buffer for buffer in root.alloc_buffers]
    return with_root(func, tir.SeqStmt([rewrite_nest(nest) for nest in nests_of(func)]), allocated)


def _widen(it: Any, extent: int) -> Any:
    domain = type(it.dom)(it.dom.min, it.dom.min + tir.const(extent, it.dom.extent.dtype))
    return tir.IterVar(domain, it.var, it.iter_type, it.thread_tag)


class _Redirect:
    """Rewrites a statement: the local tensor by column, everything else by the moved column."""

    def __init__(self, narrow: Any, wide: Any, column: Any, moved: Any) -> None:
        self._narrow, self._wide, self._column, self._moved = narrow, wide, column, moved

    def __call__(self, stmt: Any) -> Any:
        # A stand-in keeps the local tensor's own column out of the substitution.
        own = tir.Var("own_column", self._column.dtype)

        def rewrite(node: Any) -> Any:
            if not node.buffer.same_as(self._narrow):
                return None
            indices = list(node.indices)
            indices[COLUMN_AXIS] = own
            if isinstance(node, tir.BufferLoad):
                return tir.BufferLoad(self._wide, indices)
            return tir.BufferStore(self._wide, node.value, indices)

        stmt = tir.stmt_functor.ir_transform(
            stmt, None, rewrite, ["tir.BufferLoad", "tir.BufferStore"]
        )
        stmt = tir.stmt_functor.substitute(stmt, {self._column: self._moved})
        return tir.stmt_functor.substitute(stmt, {own: self._column})
