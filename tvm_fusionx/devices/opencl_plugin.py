"""TVM's OpenCL runtime as a library of its own, for a TVM that was compiled without it.

The wheel's compiler generates OpenCL, and the runtime's sources are inside the wheel. One call of a
C++ compiler makes a library of them, kept in the user's cache folder; loaded into a process, it
registers the device API. Every process that runs OpenCL kernels must load it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import logging
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.compiled_sources import compile_sources
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.output_file import make_folder, new_file

logger = logging.getLogger(__name__)

COMPILER_VARIABLE = "CXX"
DEFAULT_COMPILER = "g++"

SOURCES = Path(__file__).resolve().parent / "opencl"
RUNTIME_SOURCES = ("opencl_device_api.cc", "opencl_module.cc", "texture_pool.cc")
HEADER = Path("3rdparty") / "OpenCL-Headers" / "CL" / "cl.h"
DIGITS = 12
# How the files of compiled programs begin, which lie beside the library.
PROGRAMS = "programs-"
# One call of the compiler takes 20 s; a machine that swaps gets ten minutes.
BUILD_SECONDS = 600.0

LOADER_PACKAGE = "ocl-icd-libopencl1"
DRIVER_PACKAGE = "pocl-opencl-icd"
COMPILER_PACKAGE = "g++"

_loaded: dict[Path, Any] = {}


def tvm_folder() -> Path:
    """Return the folder of the installed TVM package."""
    return Path(tvm.__file__).resolve().parent


def opencl_library_path() -> Path:
    """Return the file of the runtime library for this TVM; it exists once it was built.

    ``python -m tvm.exec.rpc_server --load-library`` takes it.
    """
    return cache_folder() / "opencl" / f"libtvm_fusionx_opencl-{tvm.__version__}-{_digest()}.so"


def _digest() -> str:
    digest = hashlib.sha256(str(tvm_folder()).encode())
    for file in sorted(SOURCES.rglob("*.[ch]*")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:DIGITS]


def build_opencl(*, again: bool = False) -> Path:
    """Build TVM's OpenCL runtime unless it was built before; return the library's path.

    Parameters
    ----------
    again
        Whether to build even where the library exists.

    Returns
    -------
    Path
        :func:`opencl_library_path`. Two builds at once do not disturb each other.

    Raises
    ------
    MissingDependencyError
        A compiler, the OpenCL loader, or the runtime's sources are missing, or do not compile.
    OutputFileError
        The cache folder cannot be written.
    """
    path = opencl_library_path()
    if path.is_file() and not again:
        return path
    compiler = _compiler()
    loader = _loader()
    missing = _missing_source()
    if missing is not None:
        raise MissingDependencyError(
            "TVM's OpenCL runtime",
            expected=f"its sources in the installed TVM, among them {missing.name}",
            found=f"no file {missing}",
            next_step="Install xtc-tvm-python-bindings==0.19.0.12, which ships them.",
        )
    make_folder(path.parent)
    with new_file(path) as scratch:
        compile_sources(
            [*compiler, *_arguments(scratch, loader)],
            "the OpenCL runtime",
            "Use a g++ of version 9 or later; the log has all that it printed.",
            BUILD_SECONDS,
        )
    logger.info("built %s", path)
    return path


def _compiler() -> list[str]:
    words = shlex.split(os.environ.get(COMPILER_VARIABLE, "")) or [DEFAULT_COMPILER]
    if shutil.which(words[0]) is None:
        raise MissingDependencyError(
            "the OpenCL runtime",
            expected="a C++ compiler",
            found=f"no program {words[0]!r}",
            next_step=f"Install it (apt-get install {COMPILER_PACKAGE}), or set "
            f"{COMPILER_VARIABLE} to the one there is.",
        )
    return words


def _loader() -> str:
    """Return the file name of the library that finds the drivers."""
    name = ctypes.util.find_library("OpenCL")
    if name is None:
        raise MissingDependencyError(
            "the OpenCL runtime",
            expected="the OpenCL loader, libOpenCL.so.1",
            found="none",
            next_step=f"Install it: apt-get install {LOADER_PACKAGE}.",
        )
    return name


def _missing_source() -> Path | None:
    runtime = tvm_folder() / "src" / "runtime" / "opencl"
    needed = [*(runtime / name for name in RUNTIME_SOURCES), tvm_folder() / HEADER]
    return next((file for file in needed if not file.is_file()), None)


def opencl_headers() -> Path:
    """Return the folder of Khronos's headers that the installed TVM brings: ``CL/cl.h`` is in it.

    Raises
    ------
    MissingDependencyError
        It brings none.
    """
    header = tvm_folder() / HEADER
    if not header.is_file():
        raise MissingDependencyError(
            "OpenCL's headers",
            expected="those of the installed TVM",
            found=f"no file {header}",
            next_step="Install xtc-tvm-python-bindings==0.19.0.12, which ships them.",
        )
    return header.parent.parent


def _arguments(output: Path, loader: str) -> list[str]:
    folder = tvm_folder()
    runtime = folder / "src" / "runtime" / "opencl"
    third_party = folder / "3rdparty"
    return [
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-fvisibility-inlines-hidden",
        # As the wheel itself was compiled.
        "-D_GLIBCXX_USE_CXX11_ABI=1",
        "-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>",
        "-DDMLC_USE_FOPEN64=0",
        "-DNDEBUG",
        # libtvm has a function of this name, which makes modules that do not run.
        "-DOpenCLModuleCreate=FusionXOpenCLModuleCreate",
        f"-I{SOURCES / 'include'}",
        f"-I{folder / 'include'}",
        f"-I{runtime}",
        f"-I{third_party / 'dlpack' / 'include'}",
        f"-I{third_party / 'dmlc-core' / 'include'}",
        "-isystem",
        str(opencl_headers()),
        *(str(runtime / name) for name in RUNTIME_SOURCES),
        str(SOURCES / "plugin.cc"),
        "-o",
        str(output),
        f"-L{folder}",
        "-ltvm",
        f"-l:{loader}",
        f"-Wl,-rpath,{folder}",
        "-Wl,--no-undefined",
        "-Wl,--allow-shlib-undefined",
    ]


def load_opencl(*, build: bool = False) -> Path:
    """Load TVM's OpenCL runtime into this process, once.

    Parameters
    ----------
    build
        Whether to build the library when it is missing.

    Returns
    -------
    Path
        The library's file; nothing is loaded, and the path empty, where TVM has the runtime itself.

    Raises
    ------
    MissingDependencyError
        The library was not built, cannot be loaded, or finds no OpenCL device.
    """
    path = opencl_library_path()
    if path not in _loaded:
        if _is_built_in():
            return Path()
        if build:
            build_opencl()
        if not path.is_file():
            raise MissingDependencyError(
                "the OpenCL runtime",
                expected="TVM's OpenCL runtime, built for this TVM",
                found=f"no file {path}",
                next_step="Build it: fusionx opencl build.",
            )
        try:
            _loaded[path] = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
        except OSError as error:
            raise MissingDependencyError(
                "the OpenCL runtime",
                expected=f"a library that can be loaded from {path}",
                found=str(error),
                next_step=f"Install {LOADER_PACKAGE}, then: fusionx opencl build --again.",
            ) from error
    _check_device()
    return path


def _is_built_in() -> bool:
    return not _loaded and tvm.get_global_func("device_api.opencl", allow_missing=True) is not None


def _check_device() -> None:
    if not tvm.opencl(0).exist:
        raise MissingDependencyError(
            "OpenCL",
            expected="a device",
            found="none: no driver is installed, or it has no device",
            next_step="Install the driver of your GPU, or one for the CPU: "
            f"apt-get install {DRIVER_PACKAGE}; `clinfo` lists them.",
        )


def is_opencl_loaded() -> bool:
    """Tell whether this process can run OpenCL kernels."""
    return tvm.get_global_func("device_api.opencl", allow_missing=True) is not None


def why_no_opencl() -> str | None:
    """Return why OpenCL kernels cannot run here, naming what to install, or None when they can.

    Builds and loads the runtime where that is all that is missing.
    """
    try:
        load_opencl(build=True)
    except MissingDependencyError as error:
        return str(error)
    return None


def remove_opencl() -> Path | None:
    """Delete the built library and kept programs; return its path, or None when there was none.

    A process that has it loaded keeps it until it ends.
    """
    path = opencl_library_path()
    if not path.is_file():
        return None
    for file in (path, *path.parent.glob(f"{PROGRAMS}*")):
        file.unlink(missing_ok=True)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()
    return path
