"""Whether this process may use registers of whole tiles, which Linux lends to those who ask.

Linux, arch/x86/include/uapi/asm/prctl.h and unistd_64.h: ``arch_prctl(ARCH_REQ_XCOMP_PERM,
XFEATURE_XTILEDATA)``. The answer holds for all threads of the process. It is no where the kernel or
a sandbox has no such call, and where a signal stack is too small for the registers.
"""

from __future__ import annotations

import ctypes
import functools
import os

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18

# What a kernel says that was compiled for tiles, in a process that gets none.
REFUSED = (
    "a kernel for tiles of bytes: expected a processor with AMX, and a system that"
    " lends its registers (arch_prctl, ARCH_REQ_XCOMP_PERM); found not both. Build"
    " for this machine, or with -mattr=-amx-int8."
)

# As Linux lists what nobody can use without the permission.
FLAGS = frozenset({"amx_tile", "amx_int8", "amx_bf16"})


@functools.cache
def may_use_tiles() -> bool:
    """Ask for the registers; tell whether this process has them now."""
    system = os.uname()
    if (system.sysname, system.machine) != ("Linux", "x86_64"):
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    words = (ctypes.c_long(each) for each in (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA))
    return bool(call(*words) == 0)
