"""TVM's runtime for another processor: compiled from the sources that the installed wheel ships."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Sequence
from pathlib import Path

import tvm

from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.threads import usable_cores

# What a graph executor, its profiler and a session over RPC need, and what measuring fills
# arrays with.
SOURCES = (
    "*.cc",
    "memory/*.cc",
    "rpc/*.cc",
    "graph_executor/*.cc",
    "graph_executor/debug/*.cc",
    "contrib/random/random.cc",
    "contrib/sort/sort.cc",
    "minrpc/minrpc_logger.cc",
)
# Its wrapper looks for the driver's library when a program first asks for OpenCL, so that one
# runtime serves devices with and without.
OPENCL_SOURCES = (
    "opencl/opencl_device_api.cc",
    "opencl/opencl_module.cc",
    "opencl/texture_pool.cc",
    "opencl/opencl_wrapper/opencl_wrapper.cc",
)
# Stands in for a header that the wheel lacks.
STAND_INS = Path(__file__).resolve().parent / "opencl" / "include"

# As the wheel itself was compiled.
OPTIONS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-DNDEBUG",
    "-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>",
    "-DDMLC_USE_FOPEN64=0",
)


def tvm_folder() -> Path:
    """Return the folder of the installed TVM package."""
    return Path(tvm.__file__).resolve().parent


def include_options() -> list[str]:
    """Return the compiler's options that find TVM's headers.

    Raises
    ------
    MissingDependencyError
        The installed TVM came without headers.
    """
    root = tvm_folder()
    folders = [
        root / "include",
        root / "3rdparty" / "dlpack" / "include",
        root / "3rdparty" / "dmlc-core" / "include",
    ]
    for folder in folders:
        if not folder.is_dir():
            raise MissingDependencyError(
                "building for a device",
                expected="TVM's headers in the installed package",
                found=f"no folder {folder}",
                next_step="Install xtc-tvm-python-bindings==0.19.0.12, which ships them.",
            )
    return [f"-I{folder}" for folder in folders]


def runtime_sources(opencl: bool) -> list[Path]:
    """Return the files of the runtime; `MissingDependencyError` where the wheel has none."""
    root = tvm_folder() / "src" / "runtime"
    patterns = SOURCES + (OPENCL_SOURCES if opencl else ())
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    if not found:
        raise MissingDependencyError(
            "TVM's runtime",
            expected="its sources in the installed TVM",
            found=f"none in {root}",
            next_step="Install xtc-tvm-python-bindings==0.19.0.12, which ships them.",
        )
    return found


def build_runtime(
    compiler: str, output: Path, folder: Path, libraries: Sequence[str], opencl: bool
) -> None:
    """Compile the runtime with `compiler` into the shared library `output`.

    Parameters
    ----------
    compiler
        Path of the C++ compiler.
    folder
        For the object files.
    libraries
        Options that link what the device's system offers.
    opencl
        Whether the runtime has OpenCL.

    Raises
    ------
    MissingDependencyError
        The sources are missing.
    LinkError
        The compiler fails; its first line is in the message.
    """
    root = tvm_folder()
    third_party = root / "3rdparty"
    own = (STAND_INS, root / "src", third_party / "compiler-rt", third_party / "OpenCL-Headers")
    include = [*include_options(), *(f"-I{path}" for path in own)]
    sources = runtime_sources(opencl)
    objects = [str(folder / f"{number}-{path.stem}.o") for number, path in enumerate(sources)]

    def compile_one(source: Path, target: str) -> None:
        words = [compiler, *OPTIONS, *include, "-c", str(source), "-o", target]
        run_linker(words, "the device's runtime")

    with concurrent.futures.ThreadPoolExecutor(len(usable_cores())) as pool:
        list(pool.map(compile_one, sources, objects))
    run_linker([compiler, "-shared", "-o", str(output), *objects, *libraries], "the runtime")
