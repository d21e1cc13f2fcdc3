"""TVMScript's decorator of functions, without its look at the whole stack."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import linecache
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple

from tvm.script.parser.tir import entry

TENSOR_INTRINSICS = "tvm.tir.tensor_intrin"

# The decorator reads one frame of the stack: the one around its caller's. Where that stands at the
# head of a class of TVMScript, the function is left for the class's own decorator.
FRAME_READ = 2


class _Frame(NamedTuple):
    lineno: int
    code_context: list[str] | None


class _Inspect:
    """Stands for the module ``inspect``: of a stack it tells what the decorator reads."""

    def __getattr__(self, name: str) -> Any:
        return getattr(inspect, name)

    @staticmethod
    def stack() -> list[_Frame | None]:
        """Return the caller's frames up to the one that is read; the others are left out."""
        frame: FrameType | None = sys._getframe(1)
        for _ in range(FRAME_READ):
            frame = frame.f_back if frame is not None else None
        if frame is None:
            return []
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
        return [None] * FRAME_READ + [_Frame(frame.f_lineno, [line] if line else None)]


_lock = threading.RLock()
_depth = 0


@contextlib.contextmanager
def short_stacks() -> Iterator[None]:
    """Let ``T.prim_func`` look at one frame in this scope, the only one that it reads.

    It asks for the source of every frame above it, and for each whose file is none, as those of an
    import, ``inspect`` passes through all modules that are loaded. Scopes nest, from any thread.
    """
    global _depth
    with _lock:
        if _depth == 0:
            entry.inspect = _Inspect()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                entry.inspect = inspect


def import_tensor_intrinsics() -> None:
    """Import all of TVM's tensor intrinsics, as the constructor of a ``TuneContext`` does.

    They are 228 functions in TVMScript: with whole stacks 13 s in a process that has little else
    loaded and minutes in one with thousands of modules, like this 2 s in both.
    """
    if TENSOR_INTRINSICS not in sys.modules:
        with short_stacks():
            importlib.import_module(TENSOR_INTRINSICS)
