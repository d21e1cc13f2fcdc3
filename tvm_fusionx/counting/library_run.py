"""Run a compiled library file once under the counting emulator."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.build.archive import (
    BYTECODE,
    CODE,
    COMPILE_AGAIN,
    GRAPH,
    OTHER_GRAPH,
    PARAMS,
    checked_metadata,
    read_members,
    refusal,
)
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.versions import ASKS_CORE, fitting
from tvm_fusionx.cache_folder import cache_folder
from tvm_fusionx.counting.emulator import (
    DIGITS,
    Caches,
    require_emulation,
    run_counted,
    run_emulated,
)
from tvm_fusionx.counting.executed import Function, functions_of
from tvm_fusionx.counting.trace import read_trace
from tvm_fusionx.devices.build_server import ARCHITECTURES
from tvm_fusionx.devices.emulation import ARCH
from tvm_fusionx.devices.run_linker import run_linker
from tvm_fusionx.devices.runtime_sources import OPTIONS, include_options
from tvm_fusionx.devices.runtime_wheel import RUNTIME, runtime_from_wheel
from tvm_fusionx.errors import TargetError
from tvm_fusionx.inputs import InputSpec, check_inputs, random_inputs
from tvm_fusionx.output_file import locked, new_folder
from tvm_fusionx.processors.core_features import features_needed, is_linux_on_aarch64, word_of
from tvm_fusionx.processors.targets import resolve_target

SOURCE = Path(__file__).resolve().parent / "guest" / "run_library.cc"
PROGRAM = "run_library"
INPUTS, OUTPUTS, COUNTS = "inputs.params", "outputs.params", "counts.txt"
ARM_TRIPLE = "aarch64-linux-gnu"
# How a stored target names its triple.
_TRIPLE = re.compile(r"-mtriple=(\S+)")


@dataclass(frozen=True)
class LibraryRun:
    """What one inference of a library executed.

    Attributes
    ----------
    functions
        What ran.
    outputs
        What it computed.
    templates
        Template by the symbol of the kernel.
    model, target
        What the file says of itself.
    """

    functions: tuple[Function, ...]
    outputs: tuple[np.ndarray, ...]
    templates: Mapping[str, str]
    model: str
    target: str


def run_library(
    path: str | Path,
    core: str,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    caches: Caches | None = None,
) -> LibraryRun:
    """Run the library file at `path` once, after once to warm up, and count the second run.

    Of a library with versions for several cores the version runs that fits the emulated one.

    Parameters
    ----------
    path
        Of a file that `fusionx compile` wrote for an AArch64 Linux target.
    core
        LLVM's name of the core to emulate.
    inputs
        Arrays by name; seeded random ones by default.

    Raises
    ------
    InputError
        A name, a shape or a dtype of `inputs` is none of the library's.
    LibraryFileError
        The file is damaged, or holds several programs, or one for TVM's virtual machine.
    TargetError
        It was built for another kind of machine.
    MissingDependencyError
        The emulator, the cross compiler or the runtime's wheel are missing.
    DeviceError
        The library fails there.
    """
    path = Path(path)
    members, metadata = _checked(path)
    specs = _specs(metadata)
    given = check_inputs({**random_inputs(specs), **(inputs or {})}, specs)
    with tempfile.TemporaryDirectory(prefix="fusionx-count-") as name:
        folder = Path(name)
        (folder / CODE).write_bytes(members[CODE])
        version = _version(members, metadata, folder, core)
        (folder / GRAPH).write_bytes(version.graph)
        (folder / PARAMS).write_bytes(version.params(members[PARAMS]))
        arrays = {name: tvm.nd.array(value) for name, value in given.items()}
        (folder / INPUTS).write_bytes(bytes(relay.save_param_dict(arrays)))
        counts = folder / COUNTS
        run_counted([str(_program()), name], counts, core, caches=caches, environment={})
        functions = functions_of(read_trace(counts))
        results = relay.load_param_dict(bytearray((folder / OUTPUTS).read_bytes()))
    return LibraryRun(
        tuple(functions),
        tuple(numpy_of(results[str(place)]) for place in range(len(results))),
        _templates(version.graph.decode(), version.kernels),
        version.model,
        version.target,
    )


@dataclass(frozen=True)
class _Version:
    """A program of a library file, as it lies there."""

    model: str
    target: str
    needs: tuple[str, ...]
    graph: bytes
    names: Mapping[str, str] | None
    """Where its constants have other names in the file: by its own, those."""

    kernels: list[dict[str, Any]]

    def params(self, stored: bytes) -> bytes:
        """Return its constants, of those that are stored, by its own names."""
        if self.names is None:
            return stored
        arrays = relay.load_param_dict(bytearray(stored))
        return bytes(relay.save_param_dict({own: arrays[name] for own, name in self.names.items()}))


def _version(
    members: Mapping[str, bytes], metadata: Mapping[str, Any], folder: Path, core: str
) -> _Version:
    """Return the version that an emulated core runs of a file whose code lies in a folder."""
    rows = [(metadata, members[GRAPH])]
    rows += [
        (row, members[OTHER_GRAPH.format(at)])
        for at, row in enumerate(metadata.get("programs", []), 1)
    ]
    versions = [
        _Version(
            str(metadata["model"]),
            str(row.get("target", metadata["target"])),
            tuple(row.get("needs", ())),
            graph,
            row.get("params"),
            row.get("kernels", []),
        )
        for row, graph in rows
    ]

    # What is emulated may have more than the core that it stands for.
    has = features_needed(resolve_target(f"llvm -mtriple={ARM_TRIPLE} -mcpu={core}"))

    def read(word: int) -> int:
        asked = [str(_program()), str(folder), ASKS_CORE, str(word)]
        return int(run_emulated(asked, core)) & word_of(has, word)

    return fitting(versions, read)[0]


def inputs_of_library(path: str | Path) -> tuple[InputSpec, ...]:
    """Return what the library file at `path` takes; raises as :func:`run_library`."""
    return _specs(_checked(Path(path))[1])


def _specs(metadata: Mapping[str, Any]) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(row["name"], tuple(row["shape"]), row["dtype"]) for row in metadata["inputs"]
    )


def _checked(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    members = read_members(path)
    metadata = checked_metadata(path, members)
    others = metadata.get("programs", [])
    targets = {metadata["target"], *(row.get("target", metadata["target"]) for row in others)}
    if BYTECODE in members:
        raise refusal(
            path,
            "one program for the graph executor",
            "one for TVM's virtual machine",
            "Count a part of the model whose shapes and branches the data does not decide.",
        )
    if len(targets) <= len(others):
        raise refusal(
            path,
            "one program for the graph executor",
            "several, by shapes",
            "Count a library that was compiled for one set of shapes.",
        )
    triple = _TRIPLE.search(str(metadata["target"]))
    if triple is None or not is_linux_on_aarch64(triple[1]):
        raise TargetError(
            f"library file {path}",
            expected="code for AArch64 Linux",
            found=f"target {metadata['target']!r}",
            next_step="Compile it with --target 'llvm -mtriple=aarch64-linux-gnu "
            "-mcpu=cortex-a76 -num-cores=1' --cross-compiler aarch64-linux-gnu-g++, "
            "or give the ONNX file.",
        )
    for field in ("inputs", "model"):
        if field not in metadata:
            raise refusal(path, f"{field} in its description", "none", COMPILE_AGAIN)
    return members, metadata


def _templates(graph: str, notes: list[dict[str, Any]]) -> dict[str, str]:
    kernels = KernelGraph.from_json(graph).kernels
    if len(kernels) != len(notes):
        return {}
    return {
        kernel.function: str(note.get("template") or "")
        for kernel, note in zip(kernels, notes, strict=True)
    }


def _program() -> Path:
    """Return the program that runs a library on the emulated core, built once and kept."""
    require_emulation()
    row = ARCHITECTURES[ARCH]
    runtime = runtime_from_wheel(row.platform_tag)
    digest = hashlib.sha256(SOURCE.read_bytes() + str(runtime).encode()).hexdigest()[:DIGITS]
    folder = cache_folder() / "counting" / f"{PROGRAM}-{digest}"
    made = folder / PROGRAM
    if made.is_file():
        return made
    with locked(folder):
        if not made.is_file():
            with new_folder(folder, (PROGRAM, RUNTIME)) as scratch:
                shutil.copy(runtime, scratch / RUNTIME)
                words = [row.compiler, *OPTIONS, *include_options(), str(SOURCE)]
                words += ["-o", str(scratch / PROGRAM), f"-L{scratch}", "-ltvm_runtime"]
                words += ["-Wl,-rpath,$ORIGIN", *row.libraries]
                run_linker(words, "the program that is counted")
    return made
