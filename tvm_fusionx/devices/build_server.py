"""Build the RPC server for a device: one folder to copy there, made by one call.

The server is C++ of this package over TVM's C runtime API; the runtime beside it comes from the
wheel for that processor, or is compiled from the sources in the installed wheel.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.devices.linking import NDK_VARIABLE
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.devices.runtime_sources import build_runtime, include_options, tvm_folder
from tvm_fusionx.devices.runtime_wheel import RUNTIME, runtime_from_wheel
from tvm_fusionx.errors import DeviceError, MissingDependencyError
from tvm_fusionx.output_file import make_folder, new_folder
from tvm_fusionx.runtime.pool_library import POOL_SOURCE, SOURCES, TVM_SOURCE

SOURCE = Path(__file__).resolve().parent / "server" / "server.cc"
PROGRAM = "fusionx_rpc_server"
OPTIONS = ("-O2", "-std=c++17", "-Wall")


@dataclass(frozen=True)
class Architecture:
    """What a server is built for.

    Attributes
    ----------
    compiler
        Command of the C++ compiler; empty means the one that ``TVM_NDK_CC`` names.
    package
        What installs it.
    platform_tag
        Of the wheel whose runtime serves; empty where there is none.
    libraries
        Options that link what the system offers.
    """

    compiler: str
    package: str
    platform_tag: str
    libraries: tuple[str, ...]


LINUX_LIBRARIES = ("-ldl", "-lpthread")

ARCHITECTURES = {
    "host": Architecture("g++", "apt-get install g++", "", LINUX_LIBRARIES),
    "aarch64-linux": Architecture(
        "aarch64-linux-gnu-g++",
        "apt-get install g++-aarch64-linux-gnu",
        "manylinux_2_28_aarch64",
        LINUX_LIBRARIES,
    ),
    "aarch64-android": Architecture(
        "",
        f"install the Android NDK, and let {NDK_VARIABLE} name its aarch64-linux-android*-clang++",
        "",
        # Pages of 16 KiB, and C++'s library inside: the phone has none to share.
        ("-ldl", "-llog", "-static-libstdc++", "-Wl,-z,max-page-size=16384"),
    ),
}


def build_server(
    arch: str, folder: str | Path, *, from_sources: bool = False, opencl: bool | None = None
) -> Path:
    """Build the RPC server and the runtime that it needs into `folder`, replacing an older one.

    Parameters
    ----------
    arch
        One of :data:`ARCHITECTURES`.
    folder
        Gets the server and ``libtvm_runtime.so``; both go to the device, side by side.
    from_sources
        Whether to compile the runtime where a wheel has it too; takes minutes, and no network.
    opencl
        Whether the runtime has OpenCL; only one that is compiled can, and Android's does by
        default.

    Returns
    -------
    Path
        The server's program.

    Raises
    ------
    DeviceError
        There is no such architecture.
    MissingDependencyError
        The compiler, the headers or the wheel are missing.
    LinkError
        The compiler fails.
    OutputFileError
        The folder cannot be written, or holds other files.
    """
    row = ARCHITECTURES.get(arch)
    if row is None:
        raise DeviceError(
            f"architecture {arch!r}",
            expected=f"one of {', '.join(ARCHITECTURES)}",
            found="one that no server is built for",
            next_step="Build on the device itself with --arch host.",
        )
    compiler = _compiler(row)
    if opencl is None:
        opencl = arch == "aarch64-android"
    from_sources = from_sources or opencl
    folder = Path(folder)
    make_folder(folder.parent)
    with new_folder(folder, (PROGRAM, RUNTIME)) as scratch:
        runtime = scratch / RUNTIME
        if arch == "host" and not from_sources:
            shutil.copy(tvm_folder() / RUNTIME, runtime)
        elif row.platform_tag and not from_sources:
            shutil.copy(runtime_from_wheel(row.platform_tag), runtime)
        else:
            with tempfile.TemporaryDirectory(prefix="fusionx-runtime-") as objects:
                build_runtime(compiler, runtime, Path(objects), row.libraries, opencl)
        sources = map(str, (SOURCE, POOL_SOURCE, TVM_SOURCE))
        words = [compiler, *OPTIONS, *include_options(), f"-I{SOURCES}", *sources]
        words += ["-o", str(scratch / PROGRAM)]
        words += [f"-L{scratch}", "-ltvm_runtime", "-Wl,-rpath,$ORIGIN", *row.libraries]
        run_linker(words, "the device's server")
    return folder / PROGRAM


def _compiler(row: Architecture) -> str:
    command = row.compiler or os.environ.get(NDK_VARIABLE, "")
    found = shutil.which(command) if command else None
    if found is None:
        raise MissingDependencyError(
            "building a device's server",
            expected=command or f"a compiler that {NDK_VARIABLE} names",
            found="none on the path" if command else "nothing set",
            next_step=f"Get it: {row.package}.",
        )
    return found
