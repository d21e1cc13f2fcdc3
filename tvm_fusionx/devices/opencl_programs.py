"""Programs that the OpenCL driver compiled, kept for the next start; and what a start takes.

A driver compiles each kernel from source when it runs for the first time: seconds for a model, and
again in every process. The compiled programs of a model are one file, named after its source, the
device and the driver, any of which makes them useless to the others.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx.devices.opencl_plugin import load_opencl, opencl_library_path
from tvm_fusionx.output_file import make_folder, new_file

logger = logging.getLogger(__name__)

SAVE, LOAD = "fusionx.opencl.save_programs", "fusionx.opencl.load_programs"
DIGITS = 16
STEADY_RUNS = 5

MILLISECONDS = 1000.0


@dataclass(frozen=True)
class Startup:
    """What starting a model on an OpenCL device took, in milliseconds."""

    load_ms: float
    """Until inputs are accepted: constants on the device, and compiled programs if there were."""

    first_run_ms: float
    """The first run, in which the driver compiles what it has no program for."""

    steady_ms: float
    """The median of further runs."""

    from_cache: bool
    """Whether compiled programs were found."""

    def __str__(self) -> str:
        kind = "programs from the cache" if self.from_cache else "programs compiled"
        return (
            f"load {self.load_ms:.1f} ms, first run {self.first_run_ms:.1f} ms, "
            f"steady {self.steady_ms:.2f} ms ({kind})"
        )


def opencl_module(module: Any) -> Any | None:
    """Return the OpenCL module that a compiled model imports, or None."""
    stack = [module]
    while stack:
        each = stack.pop()
        if each.type_key == "opencl":
            return each
        stack.extend(each.imported_modules)
    return None


def programs_path(module: Any) -> Path:
    """Return the file for the compiled programs of an OpenCL module on this device."""
    device = tvm.opencl(0)
    parts = (
        module.get_source(),
        device.device_name,
        str(device.compute_version),
        str(device.api_version),
    )
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:DIGITS]
    return opencl_library_path().parent / f"programs-{digest}.bin"


def restore_programs(module: Any, path: Path | None = None) -> bool:
    """Give an OpenCL module the programs that were kept for it; return whether there were.

    Programs that the driver refuses, as after its update, are forgotten and compiled anew.
    """
    path = path or programs_path(module)
    if not path.is_file():
        return False
    try:
        tvm.get_global_func(LOAD)(module, str(path))
    except tvm.TVMError as error:
        logger.warning("%s is of no use to the driver and removed: %s", path, error)
        path.unlink(missing_ok=True)
        return False
    return True


def keep_programs(module: Any, path: Path | None = None) -> Path:
    """Compile every kernel of an OpenCL module and keep the programs; return their file.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    path = path or programs_path(module)
    make_folder(path.parent)
    with new_file(path) as scratch:
        tvm.get_global_func(SAVE)(module, str(scratch))
    return path


def measure_startup(
    library: Any, inputs: Mapping[str, np.ndarray], *, cache: bool = True, runs: int = STEADY_RUNS
) -> Startup:
    """Start a model on the first OpenCL device and say what each part took.

    Parameters
    ----------
    library
        What was built or loaded: ``get_graph_json``, ``get_lib`` and ``get_params``.
    inputs
        Values by name.
    cache
        Whether compiled programs are looked for, and kept.
    runs
        How many further runs `steady_ms` is the median of.

    Raises
    ------
    MissingDependencyError
        There is no OpenCL runtime or device.
    """
    load_opencl()
    device = tvm.opencl(0)
    programs = opencl_module(library.get_lib())
    started = time.perf_counter()
    from_cache = cache and programs is not None and restore_programs(programs)
    executor = graph_executor.create(library.get_graph_json(), library.get_lib(), device)
    executor.load_params(relay.save_param_dict(dict(library.get_params())))
    device.sync()
    loaded = time.perf_counter()
    for name, value in inputs.items():
        executor.set_input(name, value)
    times = [_timed(executor, device) for _ in range(1 + runs)]
    if cache and programs is not None and not from_cache:
        keep_programs(programs)
    return Startup(
        (loaded - started) * MILLISECONDS,
        times[0] * MILLISECONDS,
        float(np.median(times[1:] or times)) * MILLISECONDS,
        from_cache,
    )


def _timed(executor: Any, device: Any) -> float:
    started = time.perf_counter()
    executor.run()
    device.sync()
    return time.perf_counter() - started
