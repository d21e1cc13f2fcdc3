"""What tells the devices of records apart: a processor, and the threads that it computes with."""

from __future__ import annotations

import platform
from pathlib import Path

import tvm

from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.threads import expected_threads


def fingerprint(processor: str, threads: int) -> str:
    """Return what records name a device by."""
    return f"{processor}, {threads} threads"


def this_device(target: tvm.target.Target) -> str | None:
    """Return the fingerprint of this machine; None where `target` is not this kind of machine.

    A target that names no other system, as ``-mtriple`` does, is taken for this machine's.
    """
    if not is_cpu(target) or "mtriple" in target.attrs:
        return None
    return fingerprint(processor_name(), expected_threads())


def processor_name() -> str:
    """Return the name of this machine's processor."""
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
