"""Calls of TVM from Python that cost less, for as long as our passes run.

TVM's wheel has no compiled bridge: each call packs its arguments in Python, and asks of each
argument whether it is one of fifteen kinds of things, numbers by abstract base classes. Passes read
hundreds of thousands of attributes of nodes, so that the questions took a fifth of a build. Here
the kind is known by the class, which is asked once, and the arguments are written as 64-bit words.
What is not an object, a string, a whole number or None goes the old way; so do all errors.

Reading an attribute, an element or a length, and letting an object go, take less than giving up
and taking back Python's lock, which ctypes does around every call: threads that lower kernels side
by side took turns at each of them. These calls keep the lock; they wait for nobody.

Nothing changes but the time: values, types and errors are TVM's.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

import tvm
from tvm._ffi._ctypes import object as objects
from tvm._ffi._ctypes import packed_func
from tvm._ffi._ctypes.types import C_TO_PY_ARG_SWITCH, RETURN_SWITCH, TVMValue
from tvm._ffi.base import _LIB, raise_last_ffi_error
from tvm._ffi.runtime_ctypes import ArgTypeCode
from tvm.ir.container import Array
from tvm.runtime import Object
from tvm.runtime import _ffi_api as _runtime
from tvm.runtime.container import getitem_helper

OBJECT, INTEGER = int(ArgTypeCode.OBJECT_HANDLE), int(ArgTypeCode.INT)
STRING, NOTHING = int(ArgTypeCode.STR), int(ArgTypeCode.NULL)
ANYTHING_ELSE = -1

# Words and kinds of so many operands; calls with more go the old way.
WORDS = [ctypes.c_int64 * length for length in range(32)]
KINDS = [ctypes.c_int * length for length in range(len(WORDS))]
# Strings whose bytes are kept: names of attributes and operators mostly.
MOST_STRINGS = 1 << 14

_general = packed_func._make_tvm_args
_call = _LIB.TVMFuncCall
# The same library, through functions that keep Python's lock.
_short = ctypes.PyDLL(_LIB._name)

_attribute_of = tvm.get_global_func("node.NodeGetAttr").handle
_element_of = tvm.get_global_func("runtime.ArrayGetItem").handle
_size_of = tvm.get_global_func("runtime.ArraySize").handle
_NAMED, _PLACED, _ALONE = KINDS[2](OBJECT, STRING), KINDS[2](OBJECT, INTEGER), KINDS[1](OBJECT)

_kinds: dict[type, int] = {int: INTEGER, str: STRING, type(None): NOTHING}
_strings: dict[str, Any] = {}
_classes: dict[int, Any] = {}

_swapping = threading.Lock()
_open_scopes = 0


@contextlib.contextmanager
def quick_calls() -> Iterator[None]:
    """Make calls of TVM cheaper inside of this scope, in all threads; scopes may overlap."""
    global _open_scopes
    with _swapping:
        _open_scopes += 1
        if _open_scopes == 1:
            _swap()
    try:
        yield
    finally:
        with _swapping:
            _open_scopes -= 1
            if _open_scopes == 0:
                _swap()


def _packed(args: Sequence[Any], kept: list[Any]) -> tuple[Any, Any, int]:
    """Return operands as words, with their kinds and number, as TVM's ``_make_tvm_args``."""
    words, kinds = [], []
    for arg in args:
        cls = arg.__class__
        kind = _kinds.get(cls)
        if kind is None:
            is_object = issubclass(cls, objects.ObjectBase)
            kind = _kinds[cls] = OBJECT if is_object else ANYTHING_ELSE
        if kind == OBJECT:
            words.append(arg.handle.value)
        elif kind == INTEGER:
            words.append(arg)
        elif kind == STRING:
            text = _bytes_of(arg)
            kept.append(text)
            words.append(ctypes.addressof(text))
        elif kind == NOTHING:
            words.append(0)
        else:
            return _general(args, kept)
        kinds.append(kind)
    number = len(words)
    # An object that was moved out of has no address.
    if number >= len(WORDS) or None in words:
        return _general(args, kept)
    return WORDS[number](*words), KINDS[number](*kinds), number


def _bytes_of(text: str) -> Any:
    found = _strings.get(text)
    if found is None:
        found = ctypes.create_string_buffer(text.encode("utf-8"))
        if len(_strings) < MOST_STRINGS:
            _strings[text] = found
    return found


def _called(function: Any, words: Any, kinds: Any, number: int) -> Any:
    """Call what neither waits nor calls Python back."""
    value, kind = ctypes.c_int64(), ctypes.c_int()
    if _short.TVMFuncCall(function, words, kinds, number, ctypes.byref(value), ctypes.byref(kind)):
        raise_last_ffi_error()
    return _returned(value, kind.value)


def _returned(value: Any, kind: int) -> Any:
    if kind == OBJECT:
        return _object_at(value.value)
    if kind == INTEGER:
        return value.value
    if kind == NOTHING:
        return None
    return RETURN_SWITCH[kind](TVMValue.from_buffer(value))


def _object_at(address: int) -> Any:
    """Return the object that Python now owns, as ``_return_object``."""
    handle, index = objects.ObjectHandle(address), ctypes.c_uint()
    if _short.TVMObjectGetTypeIndex(handle, ctypes.byref(index)):
        raise_last_ffi_error()
    cls = _classes.get(index.value)
    if cls is None:
        cls = objects.OBJECT_TYPE.get(index.value)
        # One that is not registered may be yet; one that is a string, too, is made otherwise.
        if cls is None or issubclass(cls, objects.PyNativeObject):
            return objects._return_object(TVMValue(v_handle=address))
        _classes[index.value] = cls
    made = cls.__new__(cls)
    made.handle = handle
    return made


def _argument(value: Any) -> Any:
    """Return an object that TVM hands to a function of Python's."""
    kind = ctypes.c_int(OBJECT)
    if _short.TVMCbArgToReturn(ctypes.byref(value), ctypes.byref(kind)):
        raise_last_ffi_error()
    return _object_at(value.v_handle)


class _Function:
    """Methods for ``PackedFuncBase``."""

    handle: Any

    def __call__(self, *args: Any) -> Any:
        kept: list[Any] = []
        words, kinds, number = _packed(args, kept)
        value, kind = ctypes.c_int64(), ctypes.c_int()
        if _call(self.handle, words, kinds, number, ctypes.byref(value), ctypes.byref(kind)):
            raise_last_ffi_error()
        return _returned(value, kind.value)


class _Object:
    """Methods for ``ObjectBase`` and ``Object``; a finaliser is known by its name."""

    handle: Any

    def __del__(self) -> None:
        try:
            handle = self.handle
        except AttributeError:
            return
        if _short.TVMObjectFree(handle):
            raise_last_ffi_error()

    def __getattr__(self, name: str) -> Any:
        if name == "handle":
            raise AttributeError("handle is not set")
        text = _bytes_of(name)
        words = WORDS[2](self.handle.value, ctypes.addressof(text))
        try:
            return _called(_attribute_of, words, _NAMED, 2)
        except AttributeError:
            raise AttributeError(f"{type(self)} has no attribute {name}") from None


class _Array:
    """Methods for ``Array``."""

    handle: Any

    def __len__(self) -> int:
        return _called(_size_of, WORDS[1](self.handle.value), _ALONE, 1)

    def __getitem__(self, index: Any) -> Any:
        size = len(self)
        if index.__class__ is int and 0 <= index < size:
            return _called(_element_of, WORDS[2](self.handle.value, index), _PLACED, 2)
        return getitem_helper(self, _runtime.ArrayGetItem, size, index)

    def __iter__(self) -> Iterator[Any]:
        address = self.handle.value
        for index in range(len(self)):
            yield _called(_element_of, WORDS[2](address, index), _PLACED, 2)


# Where each stands, and what is not there now: TVM's inside of a scope, and ours outside.
_OURS: list[tuple[Any, Any, Any]] = [
    (packed_func, "_make_tvm_args", _packed),
    (packed_func.PackedFuncBase, "__call__", vars(_Function)["__call__"]),
    (C_TO_PY_ARG_SWITCH, OBJECT, _argument),
    (objects.ObjectBase, "__del__", vars(_Object)["__del__"]),
    (Object, "__getattr__", vars(_Object)["__getattr__"]),
    *((Array, name, vars(_Array)[name]) for name in ("__len__", "__getitem__", "__iter__")),
]


def exchanged(root: type) -> list[tuple[Any, Any, Any]]:
    """Return what is exchanged in a TVM whose objects are of class `root`.

    Nothing where that is not the class of ctypes: a TVM built with its compiled bridge is quick.
    """
    return list(_OURS) if issubclass(root, objects.ObjectBase) else []


_exchanged = exchanged(Object)


def _swap() -> None:
    for at, (holder, name, other) in enumerate(_exchanged):
        if isinstance(holder, MutableMapping):
            here, holder[name] = holder[name], other
        else:
            here = vars(holder).get(name)
            if other is None:
                delattr(holder, name)
            else:
                setattr(holder, name, other)
        _exchanged[at] = (holder, name, here)
