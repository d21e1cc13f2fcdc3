"""The compiled library file: one tar, which tvmc can run too, that describes itself.

``LIB.tar`` holds ``mod.so``, ``mod.json`` and ``mod.params``, as tvmc writes them, and
``fusionx.json``: format version, model, target, versions, inputs, outputs, kernels, and the
SHA-256 of each other member. A model for several shapes has a ``programN.json`` more for each
program behind the first, whose weights are in the same ``mod.params``, once. Reading checks all of
it, and unpickles and executes nothing before it is checked.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx.build.archive import (
    BYTECODE,
    CODE,
    COMPILE_AGAIN,
    FORMAT_VERSION,
    GRAPH,
    METADATA,
    OTHER_GRAPH,
    PARAMS,
    SEVERAL_CORES_VERSION,
    SEVERAL_PROGRAMS_VERSION,
    checked_metadata,
    linked,
    loaded_code,
    read_members,
    refusal,
    sha256_of,
    write_members,
)
from tvm_fusionx.build.kernels import KernelGraph, KernelNote
from tvm_fusionx.build.versions import fitting_loaded
from tvm_fusionx.devices import Device
from tvm_fusionx.inputs import InputSpec
from tvm_fusionx.version import VERSION


@dataclass(frozen=True)
class Library:
    """A compiled model: TVM's factory module and its description.

    Attributes
    ----------
    graph_json, module, params
        The executor's graph, the compiled code, and the constants by name.
    model
        Name of the model.
    target
        The TVM target string that it was built for.
    inputs, outputs
        What it takes, and the shape and dtype of what it returns.
    kernels
        One note for each kernel, where the build left one.
    versions
        Versions of what built it.
    needs
        Features that a core must have to run it, in LLVM's names, where the library has versions
        for other cores; see :mod:`tvm_fusionx.build.versions`.
    """

    graph_json: str
    module: Any
    params: Mapping[str, Any]
    model: str
    target: str
    inputs: tuple[InputSpec, ...]
    outputs: tuple[InputSpec, ...]
    kernels: tuple[KernelNote, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def executor(self, device: Any = None, *, shares_weights: bool = False) -> Any:
        """Return a graph executor with the constants set, on the first CPU by default.

        Parameters
        ----------
        shares_weights
            Whether it reads :attr:`params` where they are, as several programs in one process may:
            it is then of use only as long as this object is there. Otherwise it has its own.
        """
        created = graph_executor.create(
            self.graph_json, self.module, device if device is not None else tvm.cpu(0)
        )
        graph = KernelGraph.from_json(self.graph_json)
        shared = graph.read_by_kernels_alone & set(self.params) if shares_weights else set()
        own = {name: value for name, value in self.params.items() if name not in shared}
        created.load_params(relay.save_param_dict(own))
        share = created.module["set_input_zero_copy"]
        for name in shared:
            share(name, self.params[name])
        return created

    # What ``StepwiseExecutor`` asks a factory module for; a loaded library answers the same.
    def get_graph_json(self) -> str:
        """Return the executor's graph as JSON."""
        return self.graph_json

    def get_lib(self) -> Any:
        """Return the compiled code."""
        return self.module

    def get_params(self) -> Mapping[str, Any]:
        """Return the constants by name."""
        return self.params


def describe_library(
    factory: Any,
    *,
    model: str,
    target: str,
    inputs: tuple[InputSpec, ...],
    kernels: tuple[KernelNote, ...] = (),
    needs: tuple[str, ...] = (),
) -> Library:
    """Return `factory`, a graph-executor factory module, as a :class:`Library`.

    Parameters
    ----------
    model
        Name of the model, for people.
    inputs
        What ``main`` takes.
    needs
        Features of the core that it needs, where it is one of several versions.
    """
    graph_json = factory.get_graph_json()
    graph = KernelGraph.from_json(graph_json)
    outputs = tuple(
        InputSpec(f"output_{position}", tensor.shape, tensor.dtype)
        for position, tensor in enumerate(graph.nodes[n].outputs[o] for n, o in graph.outputs)
    )
    return Library(
        graph_json=graph_json,
        module=factory.get_lib(),
        params=factory.get_params(),
        model=model,
        target=target,
        inputs=inputs,
        outputs=outputs,
        kernels=kernels,
        versions=build_versions(),
        needs=needs,
    )


def build_versions() -> dict[str, str]:
    """Return the versions a result depends on."""
    return {
        "tvm_fusionx": VERSION,
        "tvm": str(tvm.__version__),
        "llvm": str(tvm.target.codegen.llvm_version_major(allow_none=True)),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def save_library(
    library: Library | Sequence[Library],
    path: str | Path,
    compiler: str | None = None,
    device: Device | None = None,
) -> None:
    """Write `library` to `path`, all of it or nothing.

    Parameters
    ----------
    library
        One program, or several of one model: with the same module, and weights that are equal the
        same arrays.
    compiler
        Command of the C++ compiler that links for the target, such as ``aarch64-linux-gnu-g++``; by
        default the host's.
    device
        What links instead, where the library is for another machine.

    Raises
    ------
    OutputFileError
        The path cannot be written.
    DiskFullError
        There is no space for it, or in the temporary folder.
    MissingDependencyError
        There is no such compiler.
    LinkError
        It fails, as the host's does on code for another processor.
    """
    programs = (library,) if isinstance(library, Library) else tuple(library)
    first = programs[0]
    members = {CODE: linked(first.module, first.target, compiler, device)}
    arrays, names = _stored_weights(programs)
    members[GRAPH] = first.graph_json.encode()
    members[PARAMS] = bytes(relay.save_param_dict(arrays))
    for number, program in enumerate(programs[1:], 1):
        members[OTHER_GRAPH.format(number)] = program.graph_json.encode()
    metadata = _metadata(programs, names, members)
    members[METADATA] = json.dumps(metadata, indent=1).encode()
    write_members(path, members)


def _stored_weights(
    programs: Sequence[Library],
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Return each array once, by the name it is stored under; and those names for each program."""
    arrays: dict[str, Any] = {}
    stored: dict[int, str] = {}
    names: list[dict[str, str]] = []
    for number, program in enumerate(programs):
        names.append({})
        for own, array in program.params.items():
            # The first program's are those of its graph, which tvmc reads.
            name = stored.setdefault(id(array), own if number == 0 else f"program{number}.{own}")
            if number == 0:
                name = own
            arrays[name] = array
            names[-1][own] = name
    return arrays, names


def _metadata(
    programs: Sequence[Library], names: Sequence[Mapping[str, str]], members: Mapping[str, bytes]
) -> dict[str, Any]:
    first = programs[0]
    found = {
        "format_version": _format_version(programs),
        "model": first.model,
        "target": first.target,
        "versions": dict(first.versions),
        **_description(first),
        "sha256": sha256_of(members),
    }
    own = _version if found["format_version"] == SEVERAL_CORES_VERSION else lambda _: {}
    found |= own(first)
    if len(programs) > 1:
        found["programs"] = [
            {**_description(program), **own(program), "params": dict(stored)}
            for program, stored in zip(programs[1:], names[1:], strict=True)
        ]
    return found


def _format_version(programs: Sequence[Library]) -> int:
    if len({program.target for program in programs}) > 1:
        return SEVERAL_CORES_VERSION
    return FORMAT_VERSION if len(programs) == 1 else SEVERAL_PROGRAMS_VERSION


def _version(program: Library) -> dict[str, Any]:
    return {"target": program.target, "needs": list(program.needs)}


def _description(program: Library) -> dict[str, Any]:
    return {
        "inputs": [asdict(spec) for spec in program.inputs],
        "outputs": [asdict(spec) for spec in program.outputs],
        "kernel_count": len(KernelGraph.from_json(program.graph_json).kernels),
        "kernels": [asdict(note) for note in program.kernels],
    }


def load_library(path: str | Path, load: Callable[[str], Any] | None = None) -> Library:
    """Read the library file at `path`, of a model for one set of shapes.

    Raises
    ------
    LibraryFileError
        As for :func:`load_programs`; or the file has several programs.
    """
    programs = load_programs(path, load)
    if len(programs) > 1:
        raise refusal(
            Path(path),
            "one program",
            f"{len(programs)}, for several shapes",
            "Read it with load_programs, or run it with `fusionx run`.",
        )
    return programs[0]


def load_programs(
    path: str | Path, load: Callable[[str], Any] | None = None
) -> tuple[Library, ...]:
    """Read the programs of the library file at `path`, the smallest first.

    Only after every checksum agrees is the code loaded. Of a file with versions for several cores
    the programs are those of the version that fits the core that loaded the code.

    Parameters
    ----------
    load
        What makes a module of the code's file, such as a device's session; TVM, here, by default.

    Raises
    ------
    LibraryFileError
        The file is missing, damaged, not a library, of another format version, or built for another
        kind of machine.
    TargetError
        It has versions for several cores, and none for this one.
    """
    path = Path(path)
    members = read_members(path)
    metadata = checked_metadata(path, members)
    if BYTECODE in members:
        raise refusal(
            path,
            "programs for the graph executor",
            "one for TVM's virtual machine",
            "Read it with load_model, or run it with `fusionx run`.",
        )
    module = loaded_code(path, members, metadata, load)
    try:
        arrays = relay.load_param_dict(bytearray(members[PARAMS]))
        others = list(metadata.get("programs", []))
        first = _program(metadata, members[GRAPH], module, metadata, None, arrays)
        programs = (
            first,
            *(
                _program(
                    metadata, members[OTHER_GRAPH.format(at)], module, row, row["params"], arrays
                )
                for at, row in enumerate(others, 1)
            ),
        )
    except (KeyError, TypeError, ValueError, tvm.TVMError) as error:
        raise refusal(
            path, f"a complete {METADATA}", f"{type(error).__name__}: {error}", COMPILE_AGAIN
        ) from error
    return fitting_loaded(programs, module)


def _program(
    metadata: Mapping[str, Any],
    graph: bytes,
    module: Any,
    row: Mapping[str, Any],
    names: Mapping[str, str] | None,
    arrays: Mapping[str, Any],
) -> Library:
    """Return a program as `row` describes it; without `names` its graph names its weights."""
    if names is None:
        nodes = KernelGraph.from_json(graph.decode()).nodes
        names = {node.name: node.name for node in nodes if node.name in arrays}
    return Library(
        graph_json=graph.decode(),
        module=module,
        params={own: arrays[stored] for own, stored in names.items()},
        model=str(metadata["model"]),
        target=str(row.get("target", metadata["target"])),
        inputs=_specs(row["inputs"]),
        outputs=_specs(row["outputs"]),
        kernels=tuple(map(KernelNote.from_json, row["kernels"])),
        versions=dict(metadata["versions"]),
        needs=tuple(map(str, row.get("needs", ()))),
    )


def _specs(rows: Any) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(
            str(row["name"]), tuple(int(extent) for extent in row["shape"]), str(row["dtype"])
        )
        for row in rows
    )
