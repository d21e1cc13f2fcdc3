"""Skips a test module, naming what to install, on a machine without OpenCL."""

from __future__ import annotations

import pytest

from tvm_fusionx.devices.opencl_plugin import why_no_opencl


def require_opencl() -> None:
    """Load the OpenCL runtime, or skip the calling module."""
    reason = why_no_opencl()
    if reason is not None:
        pytest.skip(reason, allow_module_level=True)
