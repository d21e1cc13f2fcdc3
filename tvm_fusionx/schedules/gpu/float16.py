"""Kernels that store float16 and compute in float32, on every OpenCL device.

OpenCL C converts while it loads and stores (``vload_half``, ``vstore_half``; ``read_imagef`` of an
image of halves): that is in every version of it, where arithmetic on halves is an extension that
TVM's code asks for. So memory holds halves, registers hold float32, and a value is rounded when it
is stored and at no other time.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

HALF, SINGLE = "float16", "float32"

# How a half lies in memory for a device that need not know the type.
BITS = "uint16"

REGISTERS = ("local",)
TEXTURE = "texture"

# OpenCL's names of where a pointer points to.
ADDRESS_SPACES = {"": "__global", "global": "__global", "shared": "__local"}

_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max")
_KINDS = ["FloatImm"] + [
    f"tir.{kind}"
    for kind in (
        *_ELEMENTWISE,
        *("Allocate", "Broadcast", "BufferLoad", "BufferStore", "Call", "Cast", "DeclBuffer"),
        *("LetStmt", "Select", "Shuffle", "Var"),
    )
]

# Where a value that no parameter holds becomes float16.
_SOURCES = ["FloatImm", "tir.Allocate", "tir.Cast"]


def compute_in_float32(mod: Any) -> Any:
    """Return device functions whose float16 values are float32 except in memory.

    Parameters
    ----------
    mod
        Fully lowered device functions, as handed to TVM's OpenCL code generator.
    """
    functions = {variable: _widened(func) for variable, func in mod.functions.items()}
    return tvm.IRModule(functions, attrs=mod.attrs)


def _has_halves(func: Any) -> bool:
    """Tell whether a function can have float16 values, from where such values come.

    Asking Python about every expression takes 1.8 s for the kernels of YOLO-V4, this 0.1 s.
    """
    pointed = [getattr(param.type_annotation, "element_type", None) for param in func.params]
    found = [each.dtype for each in pointed if isinstance(each, tvm.ir.PrimType)]
    found += [param.dtype for param in func.params]

    def note(node: Any) -> None:
        found.append(node.dtype)

    tir.stmt_functor.ir_transform(func.body, None, note, _SOURCES)
    return any(_is_half(dtype) for dtype in found)


def _widened(func: Any) -> Any:
    if not _has_halves(func):
        return func
    rewriter = _Widening()
    body = tir.stmt_functor.ir_transform(func.body, None, rewriter.rewritten, _KINDS)
    if not rewriter.found:
        return func
    params = [rewriter.variables.get(param, param) for param in func.params]
    return tir.PrimFunc(params, body, func.ret_type, None, func.attrs)


def _is_half(dtype: Any) -> bool:
    return str(dtype).startswith(HALF)


def _wide(dtype: Any) -> str:
    return str(dtype).replace(HALF, SINGLE, 1)


class _Widening:
    """Rewrites the statements of one function, operands before what uses them."""

    def __init__(self) -> None:
        self.variables: dict[Any, Any] = {}
        self.buffers: dict[Any, Any] = {}

    @property
    def found(self) -> bool:
        """Tell whether anything was float16."""
        return bool(self.variables)

    def rewritten(self, node: Any) -> Any:
        """Return what takes the place of `node`; None to keep it."""
        kind = type(node).__name__
        if kind in _ELEMENTWISE:
            return type(node)(node.a, node.b) if _is_half(node.dtype) else None
        change = getattr(self, f"_{kind}".lower())
        return change(node)

    def _var(self, node: Any) -> Any:
        pointed = node.type_annotation
        if isinstance(pointed, tvm.ir.PointerType):
            if not isinstance(pointed.element_type, tvm.ir.PrimType):
                return None
            return self._pointer(node) if _is_half(pointed.element_type.dtype) else None
        if not _is_half(node.dtype):
            return None
        return self.variables.setdefault(node, tir.Var(node.name, _wide(node.dtype)))

    def _pointer(self, node: Any) -> Any:
        scope = node.type_annotation.storage_scope
        held = str(node.type_annotation.element_type.dtype)
        stored = SINGLE if scope in REGISTERS or TEXTURE in scope else BITS
        element = tvm.ir.PointerType(tvm.ir.PrimType(held.replace(HALF, stored, 1)), scope)
        return self.variables.setdefault(node, tir.Var(node.name, element))

    def _buffer(self, buffer: Any) -> Any:
        if buffer not in self.buffers:
            data = self._pointer(buffer.data)
            dtype = data.type_annotation.element_type.dtype
            self.buffers[buffer] = tir.decl_buffer(buffer.shape, dtype, buffer.name, data)
        return self.buffers[buffer]

    def _bufferload(self, node: Any) -> Any:
        if not _is_half(node.buffer.dtype):
            return None
        buffer = self._buffer(node.buffer)
        if buffer.dtype.startswith(SINGLE):
            return tir.BufferLoad(buffer, node.indices)
        (index,) = node.indices
        lanes = tvm.DataType(index.dtype).lanes
        base = _start_of(index)
        if base is not None:
            return _load(buffer, base, lanes)
        apart = [_load(buffer, _lane(index, lane), 1) for lane in range(lanes)]
        return tir.call_pure_extern(_wide(node.dtype), f"(float{lanes})", *apart)

    def _bufferstore(self, node: Any) -> Any:
        if not _is_half(node.buffer.dtype):
            return None
        buffer = self._buffer(node.buffer)
        if buffer.dtype.startswith(SINGLE):
            return tir.BufferStore(buffer, node.value, node.indices)
        (index,) = node.indices
        lanes = tvm.DataType(index.dtype).lanes
        base = _start_of(index)
        if base is not None:
            return _store(buffer, base, node.value, lanes)
        value = tir.Var("stored", node.value.dtype)
        apart = [
            _store(buffer, _lane(index, lane), tir.Shuffle([value], [lane]), 1)
            for lane in range(lanes)
        ]
        return tir.LetStmt(value, node.value, tir.SeqStmt(apart))

    def _allocate(self, node: Any) -> Any:
        if not _is_half(node.dtype):
            return None
        data = self._pointer(node.buffer_var)
        dtype = str(data.type_annotation.element_type.dtype)
        return tir.Allocate(data, dtype, node.extents, node.condition, node.body)

    def _declbuffer(self, node: Any) -> Any:
        return (
            tir.DeclBuffer(self._buffer(node.buffer), node.body)
            if _is_half(node.buffer.dtype)
            else None
        )

    def _cast(self, node: Any) -> Any:
        if not _is_half(node.dtype) and node.value.dtype != node.dtype:
            return None
        wide = _wide(node.dtype)
        return node.value if node.value.dtype == wide else tir.Cast(wide, node.value)

    def _call(self, node: Any) -> Any:
        # Conditions, texture loads, and functions that OpenCL has for every floating-point type.
        if not _is_half(node.dtype):
            return None
        return tir.Call(_wide(node.dtype), node.op, node.args)

    def _select(self, node: Any) -> Any:
        if not _is_half(node.dtype):
            return None
        return tir.Select(node.condition, node.true_value, node.false_value)

    def _broadcast(self, node: Any) -> Any:
        return tir.Broadcast(node.value, node.lanes) if _is_half(node.dtype) else None

    def _shuffle(self, node: Any) -> Any:
        return tir.Shuffle(node.vectors, node.indices) if _is_half(node.dtype) else None

    def _floatimm(self, node: Any) -> Any:
        return tir.FloatImm(SINGLE, node.value) if _is_half(node.dtype) else None

    def _letstmt(self, node: Any) -> Any:
        if not _is_half(node.var.dtype):
            return None
        return tir.LetStmt(self._var(node.var), node.value, node.body)


def _start_of(index: Any) -> Any:
    """Return where the elements of an index begin in memory; None where they are apart."""
    if tvm.DataType(index.dtype).lanes == 1:
        return index
    is_run = isinstance(index, tir.Ramp) and isinstance(index.stride, tir.IntImm)
    return index.base if is_run and int(index.stride) == 1 else None


def _lane(index: Any, lane: int) -> Any:
    if isinstance(index, tir.Ramp):
        return index.base + index.stride * lane
    return tir.Shuffle([index], [lane])


def _load(buffer: Any, base: Any, lanes: int) -> Any:
    width = "" if lanes == 1 else str(lanes)
    dtype = SINGLE if lanes == 1 else f"{SINGLE}x{lanes}"
    return tir.call_pure_extern(dtype, f"vload_half{width}", 0, _address(buffer, base, "const "))


def _store(buffer: Any, base: Any, value: Any, lanes: int) -> Any:
    width = "" if lanes == 1 else str(lanes)
    name = f"vstore_half{width}_rte"
    return tir.Evaluate(tir.call_extern("int32", name, value, 0, _address(buffer, base)))


def _address(buffer: Any, base: Any, qualifier: str = "") -> Any:
    """Return a pointer to halves; TVM prints the name of a function, here a cast, as it is."""
    space = ADDRESS_SPACES[buffer.data.type_annotation.storage_scope]
    place = tir.address_of(tir.BufferLoad(buffer, [base]))
    return tir.call_pure_extern("handle", f"({qualifier}{space} half*)", place)
