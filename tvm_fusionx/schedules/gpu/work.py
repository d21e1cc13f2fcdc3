"""What one OpenCL kernel does in all, read from its lowered function: nothing is run.

Loops, work-items and vectors have known extents, so operations and accesses are counted exactly,
but for what a condition guards, which counts as done, and for lists, which count as equally long.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.gpu.pixels import analyzer_of

GROUP_AXES = "blockIdx"
ITEM_AXES = "threadIdx"
REGISTERS = "local"

# OpenCL's function, to be followed by the lanes, where a kernel calls it itself.
VECTOR_LOAD = "vload"

# Of a loop whose extent the data decides: how often its body runs on the average, rounded up.
MEAN_EXTENT = "fusionx.mean_extent"
GROUP_MEMORY = "shared"
IMAGE = "texture"

# An image is read a pixel at a time: four numbers.
PIXEL = 4

BITS_A_BYTE = 8
REGISTER_BYTES = 4

_SUMS = (tir.Add, tir.Sub)
_OTHER_ARITHMETIC = (tir.Div, tir.Max, tir.Min, tir.Select)
_EXTERN = "tir.call_pure_extern"
_BARRIER = "tir.tvm_storage_sync"
_IMAGE_LOAD = "tir.texture2d_load"
_IMAGE_STORE = "tir.texture2d_store"
# Calls that compute no number of the model.
_CONTROL = ("tir.if_then_else", "tir.likely", "tir.reinterpret", _BARRIER, _IMAGE_LOAD)
_INTEGERS = ("int", "uint", "bool")


@dataclass(frozen=True)
class GpuWork:
    """Sums over all work-items of one launch."""

    groups: int
    group_items: int
    multiply_adds: int
    """Products whose sum follows, of float32 or wider; numbers, not vectors."""
    half_multiply_adds: int
    """The same, of float16."""
    operations: int
    """Other arithmetic of float32 or wider; a function such as exp is one."""
    half_operations: int
    loads: int
    """Instructions that read a buffer; a vector is one."""
    load_bytes: int
    image_loads: int
    """Pixels that are read of images."""
    image_load_bytes: int
    stores: int
    """Instructions that write a buffer or a pixel."""
    store_bytes: int
    group_accesses: int
    """Instructions that read or write the memory of a group."""
    barriers: int
    """Barriers that a work-item meets."""
    registers: int
    """Numbers of 4 bytes that a work-item keeps in arrays."""
    argument_bytes: int
    """Bytes of the kernel's buffers and images: the least that crosses memory, read once."""

    @property
    def items(self) -> int:
        """Return the work-items of a launch."""
        return self.groups * self.group_items

    @property
    def loads_a_multiply_add(self) -> float:
        """Return how many loads stand beside a vector of multiply-adds; 0 without multiply-adds.

        One means that four multiply-adds, a vector, need one load of a vector or of a pixel.
        """
        products = self.multiply_adds + self.half_multiply_adds
        return PIXEL * (self.loads + self.image_loads) / products if products else 0.0


def gpu_work(func: tir.PrimFunc) -> GpuWork:
    """Return what a launch of a device function does.

    Parameters
    ----------
    func
        Fully lowered, as handed to the code generator.
    """
    counter = _Counter(func)
    counter.statement(func.body, 1)
    return counter.result()


class _Counter:
    """Walks statements with the number of times that each is executed."""

    def __init__(self, func: tir.PrimFunc) -> None:
        self.counts: Counter[str] = Counter()
        self.threads = {GROUP_AXES: 1, ITEM_AXES: 1}
        self.arguments: dict[Any, int] = {}
        self.parameters = set(func.params)
        self.scopes: dict[Any, str] = {param: _scope(param) for param in func.params}
        self.analyzer = analyzer_of(func)
        self.images: dict[Any, tuple[int, int, int]] = {}

    def result(self) -> GpuWork:
        """Return the sums over all work-items."""
        groups, group_items = self.threads[GROUP_AXES], self.threads[ITEM_AXES]
        once = ("barriers", "registers")
        names = set(GpuWork.__dataclass_fields__) - {"groups", "group_items", "argument_bytes"}
        sums = {
            name: self.counts[name] * (1 if name in once else groups * group_items)
            for name in names
        }
        images = sum(columns * rows * size for columns, rows, size in self.images.values())
        return GpuWork(
            groups, group_items, argument_bytes=sum(self.arguments.values()) + images, **sums
        )

    def statement(self, node: Any, times: int) -> None:
        """Count a statement that each work-item executes `times` times."""
        pending = [(node, times)]
        while pending:
            node, times = pending.pop()
            if isinstance(node, tir.AttrStmt):
                self._attribute(node)
                pending.append((node.body, times))
            elif isinstance(node, tir.SeqStmt):
                pending.extend((each, times) for each in node.seq)
            elif isinstance(node, tir.For):
                told = node.annotations.get(MEAN_EXTENT, node.extent)
                pending.append((node.body, times * _extent(told)))
            elif isinstance(node, tir.IfThenElse):
                self._expression(node.condition, times)
                branches = [node.then_case, *([node.else_case] if node.else_case else [])]
                pending.extend((each, times) for each in branches)
            elif isinstance(node, tir.LetStmt):
                self._expression(node.value, times)
                pending.append((node.body, times))
            elif isinstance(node, tir.Allocate):
                self._allocate(node)
                pending.append((node.body, times))
            elif isinstance(node, tir.DeclBuffer):
                self._declare(node.buffer)
                pending.append((node.body, times))
            elif isinstance(node, tir.BufferStore):
                self._declare(node.buffer)
                self._access(node.buffer, node.value.dtype, times, "stores", "store_bytes")
                self._expression(node.value, times)
            elif isinstance(node, tir.Evaluate):
                self._expression(node.value, times)

    def _attribute(self, node: Any) -> None:
        if node.attr_key == "thread_extent":
            axis = str(node.node.thread_tag).partition(".")[0]
            if axis in self.threads:
                self.threads[axis] *= _extent(node.value)

    def _allocate(self, node: Any) -> None:
        scope = _scope(node.buffer_var)
        self.scopes[node.buffer_var] = scope
        if scope == REGISTERS:
            size = _bytes(node.dtype)
            for extent in node.extents:
                size *= _extent(extent)
            self.counts["registers"] += -(-size // REGISTER_BYTES)

    def _declare(self, buffer: Any) -> None:
        if buffer.data not in self.parameters or buffer.data in self.arguments:
            return
        size = _bytes(buffer.dtype)
        for extent in buffer.shape:
            size *= _extent(extent)
        self.arguments[buffer.data] = size

    def _access(self, buffer: Any, dtype: str, times: int, number: str, size: str) -> None:
        scope = self.scopes.get(buffer.data) or str(buffer.scope())
        if scope.startswith(GROUP_MEMORY):
            self.counts["group_accesses"] += times
        elif scope != REGISTERS:
            self.counts[number] += times
            self.counts[size] += times * _bytes(dtype)

    def _expression(self, expression: Any, times: int) -> None:
        fused: set[Any] = set()

        def visit(node: Any) -> None:
            if isinstance(node, tir.BufferLoad):
                self._declare(node.buffer)
                self._access(node.buffer, node.dtype, times, "loads", "load_bytes")
            elif isinstance(node, tir.Call):
                self._call(node, times)
            elif isinstance(node, (*_SUMS, tir.Mul, *_OTHER_ARITHMETIC)):
                self._arithmetic(node, times, fused)

        tir.stmt_functor.post_order_visit(expression, visit)

    def _arithmetic(self, node: Any, times: int, fused: set[Any]) -> None:
        dtype = tvm.DataType(node.dtype)
        if str(node.dtype).startswith(_INTEGERS):
            return  # Addresses, which compilers share and move.
        half = "half_" if dtype.bits < 32 else ""
        numbers = times * dtype.lanes
        if isinstance(node, _SUMS):
            product = next((x for x in (node.a, node.b) if isinstance(x, tir.Mul)), None)
            if product is not None and product.handle.value not in fused:
                # The product was counted when it was met, before its sum.
                fused.add(product.handle.value)
                self.counts[f"{half}operations"] -= numbers
                self.counts[f"{half}multiply_adds"] += numbers
                return
        self.counts[f"{half}operations"] += numbers

    def _pixel(self, node: Any) -> None:
        """Note how far an image is read or written: its type tells no extents."""
        image, column, row = node.args[:3]
        size = _bytes(node.dtype if node.op.name == _IMAGE_LOAD else node.args[-1].dtype)
        before = self.images.get(image, (0, 0, size))
        far = [
            max(known, int(self.analyzer.const_int_bound(place).max_value) + 1)
            for known, place in zip(before, (column, row), strict=False)
        ]
        self.images[image] = (far[0], far[1], size)

    def _call(self, node: Any, times: int) -> None:
        name = str(getattr(node.op, "name", ""))
        if name in (_IMAGE_LOAD, _IMAGE_STORE):
            self._pixel(node)
        if name == _IMAGE_LOAD:
            self.counts["image_loads"] += times
            self.counts["image_load_bytes"] += times * _bytes(node.dtype)
        elif name == _IMAGE_STORE:
            self.counts["stores"] += times
            self.counts["store_bytes"] += times * _bytes(node.args[-1].dtype)
        elif name == _EXTERN and _is_vector_load(node):
            # Its first element was counted when it was met, before the call.
            kind = tvm.DataType(node.dtype)
            self.counts["load_bytes"] += times * (kind.lanes - 1) * kind.bits // BITS_A_BYTE
        elif name == _BARRIER:
            self.counts["barriers"] += times
        elif name not in _CONTROL and not str(node.dtype).startswith(
            (*_INTEGERS, "handle", "void")
        ):
            dtype = tvm.DataType(node.dtype)
            half = "half_" if dtype.bits < 32 else ""
            self.counts[f"{half}operations"] += times * dtype.lanes


def _is_vector_load(node: Any) -> bool:
    return str(node.args[0].value) == f"{VECTOR_LOAD}{tvm.DataType(node.dtype).lanes}"


def _extent(value: Any) -> int:
    """Return an extent, or the most that it may be."""
    if isinstance(value, int):
        return value
    return int(tvm.arith.Analyzer().const_int_bound(value).max_value)


def _bytes(dtype: Any) -> int:
    kind = tvm.DataType(str(dtype))
    return int(kind.bits * kind.lanes) // BITS_A_BYTE


def _scope(variable: Any) -> str:
    annotation = variable.type_annotation
    return str(getattr(annotation, "storage_scope", "") or "global")
