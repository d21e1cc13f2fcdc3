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
MOST_ITEMS = 0x1004
IMAGE_WIDTH, IMAGE_HEIGHT = 0x1011, 0x1012
IMAGE_SUPPORT = 0x1016
LOCAL_BYTES = 0x1023
ANY_DEVICE = ctypes.c_uint64(0xFFFFFFFF)


def opencl_facts() -> list[dict[str, str]]:
    """Return what each OpenCL device says of itself; nothing where there is none.

    Returns
    -------
    list of dict
        ``platform``, ``device``, ``version`` and ``extensions``; and the limits of a kernel:
        ``images``, pixels as ``16384 x 16384`` or ``none``, ``items`` of a work-group, and
        ``local_bytes`` of its memory.
    """
    library = _library()
    if library is None:
        return []
    return [
        {
            "platform": _text(library.clGetPlatformInfo, platform, PLATFORM_NAME),
            "device": _text(library.clGetDeviceInfo, device, DEVICE_NAME),
            "version": _text(library.clGetDeviceInfo, device, DEVICE_VERSION),
            "extensions": _text(library.clGetDeviceInfo, device, DEVICE_EXTENSIONS),
            "images": _images(library.clGetDeviceInfo, device),
            "items": str(_number(library.clGetDeviceInfo, device, MOST_ITEMS)),
            "local_bytes": str(_number(library.clGetDeviceInfo, device, LOCAL_BYTES)),
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


def _images(ask: Callable[..., int], device: ctypes.c_void_p) -> str:
    if not _number(ask, device, IMAGE_SUPPORT):
        return "none"
    width, height = (_number(ask, device, what) for what in (IMAGE_WIDTH, IMAGE_HEIGHT))
    return f"{width} x {height}"


def _number(ask: Callable[..., int], device: ctypes.c_void_p, what: int) -> int:
    """Return a number of 4 or 8 bytes; zero where the driver does not tell."""
    number = ctypes.c_uint64()
    failed = ask(device, what, ctypes.c_size_t(ctypes.sizeof(number)), ctypes.byref(number), None)
    return 0 if failed else number.value
