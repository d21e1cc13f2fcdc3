"""Blocks whose tensors lie in memory as half precision, and whose arithmetic is float32.

A block casts what it reads to float32, computes, and casts what it stores: a cast beside a
parameter is no arithmetic but the way the parameter lies in memory. So a schedule is made of the
block without these casts, the very schedule of the float32 block; and in what comes out of it the
parameters get their own type back, with a cast at each load and store, which is an instruction or a
part of one. Sums stay where the schedule keeps them, in registers of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import collect_blocks
from tvm_fusionx.tir.brain_floats import is_brain, narrowed, widened
from tvm_fusionx.tir.root_block import nests_of, with_root

SINGLE = "float32"
NARROW = ("float16", "bfloat16")

# Annotation of TVM's products, of buffers that may lie otherwise; nothing of ours asks for it.
_LAYOUT_FREE = "layout_free_placeholders"


@dataclass(frozen=True)
class SingleBlock:
    """A block as if all of its tensors were float32."""

    func: Any
    """The unscheduled block."""

    stored: Mapping[int, str]
    """How parameters lie in memory, by their number; those that are not named lie as they are."""


@dataclass(frozen=True)
class _Copy:
    """A nest that casts one whole tensor and does nothing else."""

    source: Any
    target: Any


def as_single(
    func: Any, *, stores_apart: bool = False, converted: Container[int] = ()
) -> SingleBlock | None:
    """Return a block without the casts between its parameters and float32, or None without any.

    Parameters
    ----------
    func
        The block as unscheduled TensorIR.
    stores_apart
        Whether a stage of its own stores each result, for schedules that sum up where they store.
    converted
        Numbers of parameters that a stage of its own converts, as the block has it.
    """
    nests = nests_of(func)
    copies = [_copy_of(nest) for nest in nests]
    replaced: dict[Any, Any] = {}
    dropped: set[int] = set()
    stored: dict[int, str] = {}
    buffers: dict[Any, Any] = dict(func.buffer_map.items())
    allocated = func.body.block.alloc_buffers
    for number, param in enumerate(func.params):
        buffer = func.buffer_map[param]
        if buffer.dtype not in NARROW or number in converted:
            continue
        users = [at for at, nest in enumerate(nests) if _uses(nest, buffer)]
        casts = [(at, copy) for at in users if (copy := copies[at]) is not None]
        if not users or len(casts) < len(users):
            continue
        wide = tir.decl_buffer(buffer.shape, SINGLE, buffer.name)
        if all(_is_read(copy, buffer) for _, copy in casts):
            # A result that is the parameter in float32 is still to be written.
            own = [(at, copy) for at, copy in casts if _is_among(copy.target, allocated)]
            replaced.update({copy.target: wide for _, copy in own})
            replaced[buffer] = wide
            dropped.update(at for at, _ in own)
        elif len(casts) == 1 and casts[0][1].source.dtype == SINGLE:
            at, copy = casts[0]
            # What another stage reads too stays as exact as it is computed.
            readers = [nest for nest in nests if _only_reads(nest, copy.source)]
            if stores_apart or not _is_among(copy.source, allocated) or len(readers) > 1:
                replaced[buffer] = wide
            else:
                replaced[copy.source] = wide
                dropped.add(at)
        else:
            continue
        stored[number] = str(buffer.dtype)
        buffers[param] = wide
    # A block that turns one narrow type into another computes nothing between its casts.
    if not stored or len(dropped) == len(nests):
        return None
    kept = [
        with_other_buffers(nest, replaced) for at, nest in enumerate(nests) if at not in dropped
    ]
    body = kept[0] if len(kept) == 1 else tir.SeqStmt(kept)
    whole = with_root(func, body, [each for each in allocated if each not in replaced])
    single = tir.PrimFunc(whole.params, whole.body, whole.ret_type, buffers, whole.attrs)
    return SingleBlock(single, stored)


def in_memory(func: Any, stored: Mapping[int, str]) -> Any | None:
    """Return a scheduled block whose parameters lie in memory as they are stored.

    None where the schedule sums up in a parameter, whose sum would be rounded at each step.

    Parameters
    ----------
    func
        What a template made of :attr:`SingleBlock.func`.
    stored
        :attr:`SingleBlock.stored`.
    """
    data = {}
    for number, dtype in stored.items():
        own = func.buffer_map[func.params[number]].data
        element = tvm.ir.PointerType(tvm.ir.PrimType(dtype), own.type_annotation.storage_scope)
        data[own] = tir.Var(own.name, element)
    for block in collect_blocks(func):
        for part in block.match_buffers:
            own = data.get(part.source.buffer.data)
            if own is not None:
                data[part.buffer.data] = tir.Var(part.buffer.data.name, own.type_annotation)
    narrowing = _Narrowing(data)
    body = tir.stmt_functor.ir_transform(func.body, None, narrowing.rewritten, _KINDS)
    if narrowing.is_refused:
        return None
    buffers = {param: narrowing.buffer(each) for param, each in func.buffer_map.items()}
    return tir.PrimFunc(func.params, body, func.ret_type, buffers, func.attrs)


_KINDS = [
    *("tir.BufferLoad", "tir.BufferStore", "tir.Block", "tir.DeclBuffer", "tir.Call"),
    "tir.Cast",
]


class _Narrowing:
    """Rewrites the statements of a scheduled block, operands before what uses them."""

    def __init__(self, data: Mapping[Any, Any]) -> None:
        self.data = data
        self.made: dict[Any, Any] = {}
        self.is_refused = False

    def buffer(self, buffer: Any) -> Any:
        """Return what takes a buffer's place: itself, unless it lies where a parameter does."""
        data = self.data.get(buffer.data)
        if data is None:
            return buffer
        if buffer not in self.made:
            self.made[buffer] = tir.decl_buffer(
                buffer.shape,
                data.type_annotation.element_type.dtype,
                buffer.name,
                data,
                list(buffer.strides) or None,
                buffer.elem_offset,
                data_alignment=buffer.data_alignment,
                offset_factor=buffer.offset_factor,
                axis_separators=list(buffer.axis_separators),
            )
        return self.made[buffer]

    def rewritten(self, node: Any) -> Any:
        """Return what takes the place of `node`; None to keep it."""
        if isinstance(node, tir.Block):
            return with_block_buffers(node, self.buffer)
        if isinstance(node, tir.Call):
            return _address(node)
        if isinstance(node, tir.Cast):
            return _as_it_lies(node)
        if node.buffer.data not in self.data:
            return None
        buffer = self.buffer(node.buffer)
        if isinstance(node, tir.DeclBuffer):
            return tir.DeclBuffer(buffer, node.body)
        if isinstance(node, tir.BufferLoad):
            load = tir.BufferLoad(buffer, node.indices)
            return widened(load) if is_brain(buffer.dtype) else tir.Cast(node.dtype, load)
        self.is_refused |= _reads(node.value, buffer)
        return tir.BufferStore(buffer, _narrowed(node.value, buffer.dtype), node.indices)


def with_block_buffers(block: Any, changed: Callable[[Any], Any]) -> Any:
    """Return a block that names other buffers.

    Parameters
    ----------
    changed
        Takes a buffer and returns what takes its place: itself, or one of another type.
    """

    def moved(region: Any) -> Any:
        return tir.BufferRegion(changed(region.buffer), region.region)

    noted = {key: value for key, value in block.annotations.items() if key != _LAYOUT_FREE}
    return tir.Block(
        block.iter_vars,
        list(map(moved, block.reads)),
        list(map(moved, block.writes)),
        block.name_hint,
        block.body,
        block.init,
        list(map(changed, block.alloc_buffers)),
        [
            tir.MatchBufferRegion(changed(part.buffer), moved(part.source))
            for part in block.match_buffers
        ],
        noted,
    )


def _address(call: Any) -> Any:
    """Return the address of an element, not of a copy of it in a register."""
    if not (isinstance(call.op, tvm.ir.Op) and call.op.name == "tir.address_of"):
        return None
    (value,) = call.args
    if isinstance(value, tir.BufferLoad):
        return None
    while not isinstance(value, tir.BufferLoad):
        value = value.value if isinstance(value, tir.Cast) else value.args[0]
    return tir.Call(call.dtype, call.op, [value])


def _as_it_lies(cast: Any) -> Any:
    """Return the halves that are widened and then narrowed again; None of another cast."""
    value = cast.value
    is_halves = isinstance(value, tir.Cast) and str(cast.dtype).startswith("float16")
    return value.value if is_halves and value.value.dtype == cast.dtype else None


def _narrowed(value: Any, dtype: str) -> Any:
    if is_brain(dtype):
        return narrowed(value)
    lanes = int(tvm.DataType(value.dtype).lanes)
    return tir.Cast(dtype if lanes == 1 else f"{dtype}x{lanes}", value)


def _reads(expr: Any, buffer: Any) -> bool:
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer.data.same_as(buffer.data):
            found.append(node)

    tir.stmt_functor.post_order_visit(expr, visit)
    return bool(found)


def _uses(nest: Any, buffer: Any) -> bool:
    found = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer.same_as(buffer):
            found.append(node)

    tir.stmt_functor.post_order_visit(nest, visit)
    return bool(found)


def _only_reads(nest: Any, buffer: Any) -> bool:
    loads, stores = [], []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer.same_as(buffer):
            loads.append(node)
        if isinstance(node, tir.BufferStore) and node.buffer.same_as(buffer):
            stores.append(node)

    tir.stmt_functor.post_order_visit(nest, visit)
    return bool(loads) and not stores


def _is_among(buffer: Any, buffers: Any) -> bool:
    return any(each.same_as(buffer) for each in buffers)


def _is_read(copy: _Copy, buffer: Any) -> bool:
    return bool(copy.source.same_as(buffer)) and copy.target.dtype == SINGLE


def _copy_of(nest: Any) -> _Copy | None:
    """Return what a nest casts, element by element in place, where it does nothing else."""
    while isinstance(nest, tir.For):
        nest = nest.body
    if not isinstance(nest, tir.BlockRealize):
        return None
    store = nest.block.body
    if nest.block.init is not None or not isinstance(store, tir.BufferStore):
        return None
    value = store.value
    if not isinstance(value, tir.Cast) or not isinstance(value.value, tir.BufferLoad):
        return None
    load = value.value
    places = [it.var for it in nest.block.iter_vars]
    shape = [it.dom.extent for it in nest.block.iter_vars]
    is_whole = all(
        tvm.ir.structural_equal(list(buffer.shape), shape) for buffer in (load.buffer, store.buffer)
    )
    if not is_whole or not all(_are_same(each.indices, places) for each in (load, store)):
        return None
    return _Copy(load.buffer, store.buffer)


def _are_same(indices: Any, places: list[Any]) -> bool:
    return len(indices) == len(places) and all(
        index.same_as(place) for index, place in zip(indices, places, strict=True)
    )


def with_other_buffers(nest: Any, buffers: Mapping[Any, Any]) -> Any:
    """Return a nest that uses other buffers; a cast between equal types is dropped."""

    def rewrite(node: Any) -> Any:
        if isinstance(node, tir.Block):
            return with_block_buffers(node, lambda buffer: buffers.get(buffer, buffer))
        buffer = buffers.get(node.buffer)
        if buffer is None:
            return None
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(buffer, node.indices)
        value = node.value
        if isinstance(value, tir.Cast) and value.value.dtype == buffer.dtype:
            value = value.value
        return tir.BufferStore(buffer, value, node.indices)

    kinds = ["tir.BufferLoad", "tir.BufferStore", "tir.Block"]
    return tir.stmt_functor.ir_transform(nest, None, rewrite, kinds)
