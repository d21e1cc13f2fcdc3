"""What OpenCL offers on this machine, asked of the driver itself, whether or not TVM has it.

The server for other devices asks the same in C++ (``server/opencl_facts.h``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so")

# Of CL/cl.h.
PLATFORM_NAME = 0x0902
DEVICE_NAME = 0x102B
DEVICE_VERSION = 0x102F
DEVICE_EXTENSIONS = 0x1030
ANY_DEVICE = ctypes.c_uint64(0xFFFFFFFF)


def opencl_facts() -> list[dict[str, str]]:
    """Return platform, device, version and extensions of each OpenCL device; none where none is."""
    library = _library()
    if library is None:
        return []
    return [
        {
            "platform": _text(library.clGetPlatformInfo, platform, PLATFORM_NAME),
            "device": _text(library.clGetDeviceInfo, device, DEVICE_NAME),
            "version": _text(library.clGetDeviceInfo, device, DEVICE_VERSION),
            "extensions": _text(library.clGetDeviceInfo, device, DEVICE_EXTENSIONS),
        }
        for platform in _listed(library.clGetPlatformIDs)
        for device in _listed(library.clGetDeviceIDs, platform, ANY_DEVICE)
    ]


def _library() -> Any:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _listed(ask: Callable[..., int], *of: Any) -> list[ctypes.c_void_p]:
    count = ctypes.c_uint32()
    if ask(*of, 0, None, ctypes.byref(count)) or not count.value:
        return []
    handles = (ctypes.c_void_p * count.value)()
    if ask(*of, count, handles, None):
        return []
    return [ctypes.c_void_p(handle) for handle in handles]


def _text(ask: Callable[..., int], handle: ctypes.c_void_p, what: int) -> str:
    length = ctypes.c_size_t()
    if ask(handle, what, ctypes.c_size_t(0), None, ctypes.byref(length)):
        return ""
    text = ctypes.create_string_buffer(length.value)
    if ask(handle, what, length, text, None):
        return ""
    return text.value.decode(errors="replace").strip()
