"""Where kernels run: this machine, a phone behind an RPC tracker, an emulated board.

:func:`find_device` reads a description, :func:`export_kernel` links compiled code for it, and
:func:`open_session` runs code there, always in a process that is not the caller's.
"""

from tvm_fusionx.devices.description import Device, find_device
from tvm_fusionx.devices.linking import export_kernel
from tvm_fusionx.devices.session import DeviceSession, open_session

__all__ = ["Device", "DeviceSession", "export_kernel", "find_device", "open_session"]
