"""``fx.export_bundle``: a compiled model as a library with a C interface, and glue for others."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import ModelMemory, check_limit, memory_of_build
from tvm_fusionx.bundle.description import describe
from tvm_fusionx.bundle.device_description import (
    DEVICE_ALIGNMENT,
    describe_device,
    device_bytes,
    device_source,
    launches_of_graph,
    memory_on_device,
)
from tvm_fusionx.bundle.names import check_bundle_name, class_name, identifier
from tvm_fusionx.bundle.objects import filled, whole_object
from tvm_fusionx.bundle.streaming import streamed
from tvm_fusionx.bundle.toolchain import Toolchain, find_toolchain
from tvm_fusionx.bundle.weights import FORMAT, Weights, laid_out
from tvm_fusionx.devices import find_device
from tvm_fusionx.errors import ModelError, TargetError
from tvm_fusionx.memory import ALIGNMENT
from tvm_fusionx.output_file import make_folder, new_folder, reported_space
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.runtime.pool_library import SOURCES
from tvm_fusionx.schedules.lowering_log import LoweringLog
from tvm_fusionx.version import VERSION

EMBEDDED, BESIDE, STREAMED = PLACES = ("embedded", "beside", "streamed")
# Cores of the largest machines that models run on.
MOST_TASKS = 64
# Where a bundle that a launcher cuts into tasks has the sources of our pool, which a program links.
POOL_FOLDER = "fusionx_pool"
# Of the number that tells bundles of one name apart: 32 bits, as preprocessors compare.
IDENTITY_DIGITS = 8
POOL_FILES = ("pool.cc", "pool.h", "cores.h", "group.h", "waiting.h")


def bundle_files(name: str) -> tuple[str, ...]:
    """Return the names of all files that a bundle may have."""
    own = (f"lib{name}.a", f"lib{name}.so", f"{name}.h", f"{name}.weights", f"{name}.py")
    java = (f"{name}_jni.c", f"{class_name(name)}.kt")
    return (*own, *java, "main.c", "CMakeLists.txt", "LICENSES.txt")


def export_bundle(
    lib: GraphExecutorFactoryModule,
    path: str | Path,
    *,
    name: str | None = None,
    weights: str = EMBEDDED,
    tasks: int = 1,
    compiler: str | None = None,
    device: str | None = None,
    memory_limit: str | int | None = None,
) -> ModelMemory:
    """Write a model as a folder: libraries, a header, weights, an example, loaders.

    The loaders are a Python module, and a Kotlin class with its glue for Java.

    Parameters
    ----------
    lib
        What :func:`tvm_fusionx.build` returned, for a CPU or ``opencl``, and the graph executor.
    path
        The folder; an older bundle of the same name there is replaced.
    name
        What files and symbols begin with; by default the folder's name.
    weights
        ``"embedded"`` in the libraries, or ``"beside"`` them in a file that processes share, or
        ``"streamed"`` from that file: read for one kernel at a time, into the arena, in every run.
    tasks
        Into how many tasks a launcher may cut a kernel, each with a workspace of its own. With more
        than one the folder has the sources of our thread pool, which is such a launcher.
    compiler
        Command of the C compiler of the target, such as ``aarch64-linux-gnu-gcc``; this machine's
        by default.
    device
        Name of the device that it is for, whose linker links it; see ``fusionx devices list``.
    memory_limit
        Most that weights, inputs, outputs and arena may take, as for :func:`tvm_fusionx.build`.
        Streamed weights are a part of the arena.

    Returns
    -------
    memory
        What it takes: its plan's arena is what the header calls ``NAME_ARENA_BYTES``.

    Raises
    ------
    ModelError, TargetError
        The library is no such one, or needs more than `memory_limit`; the target is another; the
        name is none.
    MissingDependencyError, LinkError, OutputFileError
        There is no compiler; a kernel needs TVM's runtime, or linking fails; the folder holds
        something else, or cannot be written.
    """
    if not isinstance(lib, GraphExecutorFactoryModule) or not hasattr(lib, BUILT_FROM):
        raise ModelError(
            "library of a bundle",
            expected="one program for the graph executor, as fx.build returns",
            found=type(lib).__name__,
            next_step="Build the model for one set of shapes, all known: lib = fx.build(...).",
        )
    tools = find_toolchain(compiler, find_device(device) if device is not None else None)
    log = getattr(lib, BUILT_FROM)[1]
    return write_bundle(
        lib, log, path, tools, name=name, weights=weights, tasks=tasks, memory_limit=memory_limit
    )


def write_bundle(
    lib: Any,
    log: LoweringLog,
    path: str | Path,
    toolchain: Toolchain,
    *,
    name: str | None = None,
    weights: str = EMBEDDED,
    tasks: int = 1,
    memory_limit: str | int | None = None,
) -> ModelMemory:
    """Write the bundle of a graph-executor factory module, as :func:`export_bundle` does.

    Parameters
    ----------
    log
        Of the lowering of its kernels.
    toolchain
        What compiles and links for its target.
    """
    is_device = _check(lib, weights, tasks)
    final = Path(path)
    name = check_bundle_name(name if name is not None else final.name)
    params = lib.get_params()
    graph = KernelGraph.from_json(lib.get_graph_json())
    if is_device:
        _check_for_device(weights, tasks)
        memory, stored, described = _described_for_device(lib, log, graph)
    else:
        memory = memory_of_build(lib, log, tasks)
        if weights == STREAMED:
            memory = streamed(memory, graph, params)
        stored = laid_out(params)
        is_streamed = weights == STREAMED
        rows = describe(graph, params, memory, stored, log.workspaces, is_streamed)
        described = rows.as_fields()
    if memory_limit is not None:
        check_limit(memory, memory_limit)
    fields = {
        **described,
        **_weights_fields(stored),
        "name": name,
        "prefix": identifier(name),
        "macro": identifier(name).upper(),
        "class_name": class_name(name),
        "version": VERSION,
        "target": _target_text(lib),
        "arena_bytes": memory.plan.arena_bytes,
        "alignment": ALIGNMENT,
        "tasks": tasks,
        "is_embedded": weights == EMBEDDED,
        "is_streamed": weights == STREAMED,
        "is_device": is_device,
        "tvm_version": tvm.__version__,
        "llvm_version": tvm.target.codegen.llvm_version_major(allow_none=True),
    }
    fields["identity"] = _identity(fields)
    make_folder(final.parent)
    with new_folder(final, (*bundle_files(name), POOL_FOLDER)) as folder:
        _write_texts(folder, name, fields)
        if tasks > 1:
            _write_pool(folder / POOL_FOLDER)
        with reported_space(), tempfile.TemporaryDirectory(prefix="fusionx-") as scratch:
            built = whole_object(lib, Path(scratch), fields, stored, toolchain)
            toolchain.archive(built, folder / f"lib{name}.a")
            toolchain.share(built, folder / f"lib{name}.so")
        if weights != EMBEDDED:
            stored.write(folder / f"{name}.weights")
    return memory


def _check(lib: Any, weights: str, tasks: int) -> bool:
    """Refuse what cannot be a bundle; return whether an OpenCL device runs it."""
    kinds = {"cpu" if is_cpu(target) else target.kind.name for target in _targets(lib)}
    if kinds not in ({"cpu"}, {"opencl"}):
        raise TargetError(
            "target of a bundle",
            expected="a CPU (llvm), or opencl",
            found=_target_text(lib),
            next_step="Build the model for one of them.",
        )
    if weights not in PLACES:
        raise ValueError(f"weights: expected one of {', '.join(PLACES)}; found {weights!r}.")
    # True would be written into C as it is printed.
    if not isinstance(tasks, int) or isinstance(tasks, bool) or not 1 <= tasks <= MOST_TASKS:
        raise ValueError(f"tasks: expected 1 to {MOST_TASKS}; found {tasks!r}.")
    return kinds == {"opencl"}


def _check_for_device(weights: str, tasks: int) -> None:
    if weights == STREAMED or tasks != 1:
        raise TargetError(
            "bundle for OpenCL",
            expected="weights that lie on the device, and no tasks",
            found=f"weights {weights!r}, tasks {tasks}",
            next_step="Leave weights='streamed' and tasks out, or build the model for llvm.",
        )


def _described_for_device(
    lib: Any, log: LoweringLog, graph: KernelGraph
) -> tuple[ModelMemory, Weights, dict[str, Any]]:
    """Return the plan, the constants and what the templates fill in of a model for OpenCL."""
    params = lib.get_params()
    launches = launches_of_graph(graph, log)
    memory = memory_on_device(lib, launches)
    stored = laid_out(params, DEVICE_ALIGNMENT)
    source = device_source(lib.get_lib())
    rows = describe_device(graph, params, memory, stored, launches, source)
    sizes = {
        "device_alignment": DEVICE_ALIGNMENT,
        "device_bytes": device_bytes(rows, memory, stored),
    }
    return memory, stored, {**rows.as_fields(), **sizes}


def _targets(lib: Any) -> list[tvm.target.Target]:
    target = lib.target
    if isinstance(target, (str, tvm.target.Target)):
        return [tvm.target.Target(target)]
    each: Iterable[Any] = target.values() if isinstance(target, Mapping) else target
    return [tvm.target.Target(one) for one in each]


def _target_text(lib: Any) -> str:
    return "; ".join(map(str, _targets(lib)))


def _weights_fields(stored: Weights) -> dict[str, Any]:
    return {
        "weights_bytes": len(stored.data),
        "weights_file_bytes": stored.file_bytes,
        "weights_format": FORMAT,
        "checksum": stored.checksum,
        "sha256": list(stored.sha256),
    }


def _identity(fields: Mapping[str, Any]) -> str:
    """Return a number, in hexadecimal, that tells a bundle from others of its name."""
    told = repr(sorted(fields.items())).encode()
    return hashlib.sha256(told).hexdigest()[:IDENTITY_DIGITS]


def _write_texts(folder: Path, name: str, fields: Mapping[str, Any]) -> None:
    texts = {
        f"{name}.h": "bundle.h",
        f"{name}.py": "loader.py",
        f"{name}_jni.c": "jni.c",
        f"{fields['class_name']}.kt": "class.kt",
        **{each: each for each in ("main.c", "CMakeLists.txt", "LICENSES.txt")},
    }
    for file, template in texts.items():
        (folder / file).write_text(filled(template, fields), encoding="utf-8")


def _write_pool(folder: Path) -> None:
    folder.mkdir()
    for file in POOL_FILES:
        shutil.copyfile(SOURCES / file, folder / file)
