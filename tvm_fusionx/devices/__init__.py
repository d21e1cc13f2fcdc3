"""Where kernels run: this machine, a phone behind an RPC tracker, an emulated board.

:func:`find_device` reads a description, :func:`export_kernel` links compiled code for it, and
:func:`open_session` runs code there, always in a process that is not the caller's.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvm_fusionx.devices.description import Device, find_device
    from tvm_fusionx.devices.emulation import emulate
    from tvm_fusionx.devices.linking import export_kernel
    from tvm_fusionx.devices.session import DeviceSession, open_session

__all__ = ["Device", "DeviceSession", "emulate", "export_kernel", "find_device", "open_session"]

# Loaded when asked for: they need TVM, and the doctor of this room must start without it.
_MODULES = {
    "Device": "description",
    "find_device": "description",
    "emulate": "emulation",
    "export_kernel": "linking",
    "DeviceSession": "session",
    "open_session": "session",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
