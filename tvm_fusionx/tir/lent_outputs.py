"""Results of a block that the block itself reads again, such as a sum that is kept beside its norm.

TVM moves no stage that writes a parameter of the function into the loops of another. So such a
result is lent to the schedule as a buffer like any other, and takes its place again afterwards: it
is written once, and read while it is in the cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.coverage import is_read_whole
from tvm_fusionx.tir.root_block import with_root

LENT_SUFFIX = "_lent"
_LENT_NAME = re.compile(rf"{LENT_SUFFIX}(\d+)$")


def is_lent(buffer: Any) -> bool:
    """Tell whether a buffer stands for a parameter of the function."""
    return _LENT_NAME.search(buffer.name) is not None


def lend_outputs(func: Any, info: BlockInfo) -> Any:
    """Return `func` with a buffer in place of every result that its own stages read whole.

    One that they read in part only, as a slice of it, is computed for itself: where it is read it
    would be computed in part.
    """
    places = {func.buffer_map[param].data: at for at, param in enumerate(func.params)}
    stand_ins: dict[Any, Any] = {}
    for name in info.outputs:
        stage = info.stages[name]
        for buffer in stage.writes:
            if buffer.data in places and is_read_whole(info, name):
                lent = f"{buffer.name}{LENT_SUFFIX}{places[buffer.data]}"
                stand_ins[buffer.data] = tir.decl_buffer(buffer.shape, buffer.dtype, lent)
    if not stand_ins:
        return func
    root = func.body.block
    allocated = [*root.alloc_buffers, *stand_ins.values()]
    return with_root(func, _replace(root.body, stand_ins), allocated)


def return_outputs(func: Any) -> Any:
    """Return a scheduled `func` in which every lent result is written to its parameter again.

    Where a schedule has widened the buffer, the result is copied out of it in the end.
    """
    root = func.body.block
    lent = {}
    for buffer in root.alloc_buffers:
        found = _LENT_NAME.search(buffer.name)
        # A buffer made from a lent one, as a cache of it, bears another name.
        if found is not None:
            lent[buffer] = func.buffer_map[func.params[int(found.group(1))]]
    if not lent:
        return func
    same = {
        buffer.data: own
        for buffer, own in lent.items()
        if tvm.ir.structural_equal(list(buffer.shape), list(own.shape))
    }
    allocated = [buffer for buffer in root.alloc_buffers if buffer.data not in same]
    copies = [_copy(buffer, own) for buffer, own in lent.items() if buffer.data not in same]
    body = _replace(root.body, same)
    if copies:
        body = tir.SeqStmt([body, *copies])
    return with_root(func, body, allocated)


def _replace(body: Any, buffers: Mapping[Any, Any]) -> Any:
    def moved(regions: Any) -> list[Any]:
        return [
            tir.BufferRegion(buffers.get(region.buffer.data, region.buffer), region.region)
            for region in regions
        ]

    def rewrite(node: Any) -> Any:
        if isinstance(node, tir.Block):
            return tir.Block(
                node.iter_vars,
                moved(node.reads),
                moved(node.writes),
                node.name_hint,
                node.body,
                node.init,
                node.alloc_buffers,
                node.match_buffers,
                node.annotations,
            )
        buffer = buffers.get(node.buffer.data)
        if buffer is None:
            return None
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(buffer, node.indices)
        return tir.BufferStore(buffer, node.value, node.indices)

    kinds = ["tir.BufferLoad", "tir.BufferStore", "tir.Block"]
    return tir.stmt_functor.ir_transform(body, None, rewrite, kinds)


def _copy(source: Any, target: Any) -> Any:
    """Return the loops that copy the part of `source` that `target` holds, rows in parallel."""
    dtype = target.shape[0].dtype
    zero = tir.const(0, dtype)
    loops = [tir.Var(f"i{axis}", dtype) for axis in range(len(target.shape))]
    variables = [tir.Var(f"v{axis}", dtype) for axis in range(len(target.shape))]
    iters = [
        tir.IterVar(tvm.ir.Range(zero, extent), variable, tir.IterVar.DataPar)
        for variable, extent in zip(variables, target.shape, strict=True)
    ]
    points = [tvm.ir.Range.from_min_extent(each, tir.const(1, dtype)) for each in variables]
    block = tir.Block(
        iters,
        [tir.BufferRegion(source, points)],
        [tir.BufferRegion(target, points)],
        source.name + "_copy",
        tir.BufferStore(target, tir.BufferLoad(source, variables), variables),
    )
    statement: Any = tir.BlockRealize(loops, tir.const(True, "bool"), block)
    for position in reversed(range(len(loops))):
        is_row = position == max(0, len(loops) - 2)
        kind = tir.ForKind.PARALLEL if is_row else tir.ForKind.SERIAL
        statement = tir.For(loops[position], zero, target.shape[position], kind, statement)
    return statement
