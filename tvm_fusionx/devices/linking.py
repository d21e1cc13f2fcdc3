"""Link compiled code into a library for a device, with the linker that the device names.

Never with the one that the host happens to have: the host's linker makes of code for another
processor an error at best.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tvm.contrib import cc

from tvm_fusionx._tvm.object_files import export_library
from tvm_fusionx.devices.android_link import PAGE_BYTES, check_for_android, link_with_lld
from tvm_fusionx.devices.description import Device
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import LinkError, MissingDependencyError
from tvm_fusionx.output_file import new_file

NDK_VARIABLE = "TVM_NDK_CC"

# The linkers whose libraries are Android's.
ANDROID_LINKERS = ("ndk", "lld")
ANDROID_OPTIONS = ("-shared", "-fPIC", "-lm", f"-Wl,-z,max-page-size={PAGE_BYTES}")

Link = Callable[[str, Sequence[str]], None]


def export_kernel(module: Any, path: str | Path, device: Device) -> Path:
    """Link what TVM built into a shared library of the device.

    Parameters
    ----------
    module
        A built ``tvm.runtime.Module``, or a graph-executor factory module, which is exported whole:
        graph, code and constants in one file.
    path
        The library's file; its name should end in ``.so``.
    device
        What the module was built for.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    MissingDependencyError
        The device's linker is not installed.
    LinkError
        The linker fails, or the library needs what the device does not offer.
    OutputFileError
        The path cannot be written.
    """
    path = Path(path)
    link = linker_of(device)
    with new_file(path) as scratch:
        try:
            export_library(module, scratch, fcompile=_as_tvm_calls(link, device))
        except RuntimeError as error:
            if isinstance(error, LinkError):
                raise
            raise LinkError(
                f"library {path.name} for device {device.name}",
                expected="code that can be exported for it",
                found=str(error).strip().splitlines()[-1],
                next_step="Build the module for the device's target.",
            ) from error
        if device.linker in ANDROID_LINKERS:
            check_for_android(scratch)
    return path


def linker_of(device: Device) -> Link:
    """Return the function that links objects for `device`.

    Raises
    ------
    MissingDependencyError
        The linker is not installed.
    """
    if device.linker == "lld":
        return link_with_lld
    if device.linker == "ndk":
        command = os.environ.get(NDK_VARIABLE, "")
        advice = f"Set {NDK_VARIABLE} to the NDK's aarch64-linux-android*-clang++, or use lld."
        return _by_compiler(device, command, ANDROID_OPTIONS, f"${NDK_VARIABLE}", advice)
    command = device.compiler or str(cc.get_cc() or "")
    debian = "g++" if device.linker == "host" else f"g++-{_triple(command)}"
    return _by_compiler(
        device,
        command,
        ("-shared", "-fPIC", "-lm"),
        command or "g++, clang++, or the one that CXX names",
        f"Install it (Debian: apt-get install {debian}), or name another in the device.",
    )


def _triple(command: str) -> str:
    """Return the Debian architecture of a cross compiler's command: its name less the program."""
    return Path(command).name.rpartition("-")[0] or "aarch64-linux-gnu"


def _by_compiler(
    device: Device, command: str, options: Sequence[str], expected: str, advice: str
) -> Link:
    found = shutil.which(command) if command else None
    if found is None:
        raise MissingDependencyError(
            f"linker of device {device.name}",
            expected=expected,
            found="none on the path" if command else "nothing that names it",
            next_step=advice,
        )

    def link(output: str, objects: Sequence[str]) -> None:
        run_linker([found, "-o", output, *objects, *options], device.name)

    return link


def _as_tvm_calls(link: Link, device: Device) -> Any:
    """Return the linker as ``export_library`` calls it; it reads two attributes of a function."""

    def fcompile(output: str, objects: Any, options: Any = None, **_: Any) -> None:
        link(str(output), [objects] if isinstance(objects, str) else list(map(str, objects)))

    fcompile.output_format = "so"  # type: ignore[attr-defined]
    target = device.tvm_target()
    host = target.host if target.host is not None else target
    triple = str(host.attrs.get("mtriple", ""))
    if triple:
        fcompile.get_target_triple = lambda: triple  # type: ignore[attr-defined]
    return fcompile
