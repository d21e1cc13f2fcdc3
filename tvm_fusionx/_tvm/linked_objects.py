"""Object code of kernels beside what TVM compiles: callable in this process, part of every export.

TVM's module of LLVM code calls a kernel whose code lies elsewhere like any function of C. In an
exported library a linker finds it in TVM's static libraries. In memory TVM's compiler has to be
told the address, for which LLVM has a table; only its older engine, MCJIT, reads that table.
"""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm._ffi import base
from tvm.runtime import _ffi_api

OLDER_ENGINE = "mcjit"


@dataclass(frozen=True)
class WithObjects:
    """Lowered functions, and the object code of kernels that they call."""

    mod: tvm.IRModule
    objects: tuple[bytes, ...]

    def build(self, generator: Callable[[Any, Any], Any], target: Any) -> Any:
        """Return the module of a code generator, with the objects as its static libraries."""
        module = generator(self.mod, tvm.target.Target({**target.export(), "jit": OLDER_ENGINE}))
        for library in static_libraries(self.objects):
            module.import_module(library)
        return module


def static_libraries(objects: Iterable[bytes]) -> list[Any]:
    """Return TVM's modules of object files, which it links into what it exports.

    Equal files are one module, in all builds of this process: programs that are exported together
    share kernels, and TVM links each module once, but not each kernel.
    """
    return [_static_library(code) for code in objects]


@functools.cache
def _static_library(code: bytes) -> Any:
    with tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
        path = Path(folder) / "kernel.o"
        path.write_bytes(code)
        return _ffi_api.ModuleLoadStaticLibrary(str(path), [])


@functools.cache
def _add_symbol() -> Any:
    try:
        function = ctypes.CDLL(base._LIB._name).LLVMAddSymbol
    except (AttributeError, OSError):
        return None
    function.argtypes, function.restype = [ctypes.c_char_p, ctypes.c_void_p], None
    return function


def can_tell_addresses() -> bool:
    """Tell whether TVM's LLVM lets this process name addresses; one linked into TVM may not."""
    return _add_symbol() is not None


def tell_addresses(library: Path, symbols: Iterable[str]) -> Any:
    """Load a shared library of kernels, and let code compiled in memory call them.

    Returns
    -------
    tvm.runtime.Module
        Who keeps it keeps the code; the file may go.
    """
    # TVM's loader gives the library the addresses of its own functions, and its thread pool's.
    module = tvm.runtime.load_module(str(library))
    functions = ctypes.CDLL(str(library))
    for symbol in symbols:
        address = ctypes.cast(getattr(functions, symbol), ctypes.c_void_p)
        _add_symbol()(symbol.encode(), address)
    return module
