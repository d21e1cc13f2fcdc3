"""The compiled library file: one tar, which tvmc can run too, that describes itself.

``LIB.tar`` holds ``mod.so``, ``mod.json`` and ``mod.params``, as tvmc writes them, and
``fusionx.json``: format version, model, target, versions, inputs, outputs, kernels, and the
SHA-256 of each other member. A model for several shapes has a ``programN.json`` more for each
program behind the first, whose weights are in the same ``mod.params``, once. Reading checks all of
it, and unpickles and executes nothing before it is checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import cc, graph_executor

from tvm_fusionx._tvm.object_files import export_library
from tvm_fusionx.build.kernels import KernelGraph, KernelNote
from tvm_fusionx.devices import Device, export_kernel
from tvm_fusionx.errors import DeviceError, LibraryFileError, LinkError, MissingDependencyError
from tvm_fusionx.inputs import InputSpec
from tvm_fusionx.output_file import check_space, new_file, reported_space
from tvm_fusionx.version import VERSION

# Of a file with one program, and with several.
FORMAT_VERSION = 1
SEVERAL_PROGRAMS_VERSION = 2

# The names are tvmc's: ``tvmc run`` takes the file as its own.
CODE = "mod.so"
GRAPH = "mod.json"
PARAMS = "mod.params"
METADATA = "fusionx.json"
CHECKED_MEMBERS = (CODE, GRAPH, PARAMS)
OTHER_GRAPH = "program{}.json"
_OTHER_GRAPH_NAME = re.compile(r"program[1-9][0-9]{0,2}\.json")

# A description is a few kilobytes, plus a line for each kernel; more is not ours.
LARGEST_METADATA_BYTES = 64 * 2**20


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

    def executor(self, device: Any = None) -> Any:
        """Return a graph executor with the constants set, on the first CPU by default."""
        created = graph_executor.create(
            self.graph_json, self.module, device if device is not None else tvm.cpu(0)
        )
        if device is not None:
            created.load_params(relay.save_param_dict(dict(self.params)))
            return created
        # They are where they are needed: several programs read the same.
        share = created.module["set_input_zero_copy"]
        for name, value in self.params.items():
            share(name, value)
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
) -> Library:
    """Return `factory`, a graph-executor factory module, as a :class:`Library`.

    Parameters
    ----------
    model
        Name of the model, for people.
    inputs
        What ``main`` takes.
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
    with reported_space(), tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
        code = Path(folder) / CODE
        if device is None:
            _link(first, code, compiler)
        else:
            export_kernel(first.module, code, device)
        members = {CODE: code.read_bytes()}
    arrays, names = _stored_weights(programs)
    members[GRAPH] = first.graph_json.encode()
    members[PARAMS] = bytes(relay.save_param_dict(arrays))
    for number, program in enumerate(programs[1:], 1):
        members[OTHER_GRAPH.format(number)] = program.graph_json.encode()
    metadata = _metadata(programs, names, members)
    members[METADATA] = json.dumps(metadata, indent=1).encode()
    with new_file(path) as scratch, tarfile.open(scratch, "w") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


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


def _link(library: Library, code: Path, compiler: str | None) -> None:
    command = compiler or cc.get_cc()
    if command is None or shutil.which(command) is None:
        raise MissingDependencyError(
            "C++ compiler",
            expected=compiler or "g++, clang++, or the one that CXX names",
            found="none on the path",
            next_step="Install one (Debian: apt-get install g++), or name another.",
        )
    try:
        export_library(library.module, code, fcompile=cc.cross_compiler(command))
    except RuntimeError as error:
        # Between TVM's headline and its command line stands what the compiler printed.
        said = [line for line in str(error).splitlines()[1:-1] if line.strip()]
        check_space("\n".join(said))
        raise LinkError(
            f"linking by {command}",
            expected=f"a shared library for {library.target}",
            found=said[-1].strip() if said else "a compiler that fails and says nothing",
            next_step="Name the target's own C++ compiler with --cross-compiler (compiler=).",
        ) from error


def _metadata(
    programs: Sequence[Library], names: Sequence[Mapping[str, str]], members: Mapping[str, bytes]
) -> dict[str, Any]:
    first = programs[0]
    found = {
        "format_version": FORMAT_VERSION if len(programs) == 1 else SEVERAL_PROGRAMS_VERSION,
        "model": first.model,
        "target": first.target,
        "versions": dict(first.versions),
        **_description(first),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
    }
    if len(programs) > 1:
        found["programs"] = [
            {**_description(program), "params": dict(own)}
            for program, own in zip(programs[1:], names[1:], strict=True)
        ]
    return found


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
        raise _refusal(
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

    Only after every checksum agrees is the code loaded.

    Parameters
    ----------
    load
        What makes a module of the code's file, such as a device's session; TVM, here, by default.

    Raises
    ------
    LibraryFileError
        The file is missing, damaged, not a library, of another format version, or built for another
        kind of machine.
    """
    path = Path(path)
    members = _read_members(path)
    metadata = _checked_metadata(path, members)
    with reported_space(), tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
        code = Path(folder) / CODE
        code.write_bytes(members[CODE])
        try:
            # Loaded code stays mapped when its file goes.
            module = (load or tvm.runtime.load_module)(str(code))
        except DeviceError:
            raise
        except (tvm.TVMError, OSError, ValueError) as error:
            raise _refusal(
                path,
                "code that this machine can load",
                str(error).strip().splitlines()[-1],
                f"It was built for {metadata['target']!r}; compile it again on this machine.",
            ) from error
    try:
        arrays = relay.load_param_dict(bytearray(members[PARAMS]))
        others = list(metadata.get("programs", []))
        first = _program(metadata, members[GRAPH], module, metadata, None, arrays)
        return (
            first,
            *(
                _program(
                    metadata, members[OTHER_GRAPH.format(at)], module, row, row["params"], arrays
                )
                for at, row in enumerate(others, 1)
            ),
        )
    except (KeyError, TypeError, ValueError, tvm.TVMError) as error:
        raise _refusal(
            path, f"a complete {METADATA}", f"{type(error).__name__}: {error}", COMPILE_AGAIN
        ) from error


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
        target=str(metadata["target"]),
        inputs=_specs(row["inputs"]),
        outputs=_specs(row["outputs"]),
        kernels=tuple(map(KernelNote.from_json, row["kernels"])),
        versions=dict(metadata["versions"]),
    )


COMPILE_AGAIN = "Compile the model again with `fusionx compile`."


def _refusal(path: Path, expected: str, found: str, next_step: str) -> LibraryFileError:
    return LibraryFileError(
        f"library file {path}", expected=expected, found=found, next_step=next_step
    )


def _read_members(path: Path) -> dict[str, bytes]:
    """Read the members into memory; nothing is extracted, so no name can lead outside a folder."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                is_known = member.name in (*CHECKED_MEMBERS, METADATA)
                is_known |= _OTHER_GRAPH_NAME.fullmatch(member.name) is not None
                if not is_known or not member.isfile():
                    raise _refusal(
                        path,
                        f"only the members {', '.join((*CHECKED_MEMBERS, METADATA))}",
                        f"{member.name!r}",
                        "This is not a file that `fusionx compile` wrote; do not trust it.",
                    )
                content = archive.extractfile(member)
                members[member.name] = content.read() if content is not None else b""
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        if isinstance(error, LibraryFileError):
            raise
        raise _refusal(
            path,
            "a readable tar file that `fusionx compile` wrote",
            str(error),
            "Check the path, or compile the model again.",
        ) from error
    missing = [name for name in (*CHECKED_MEMBERS, METADATA) if name not in members]
    if missing:
        raise _refusal(
            path,
            f"the members {', '.join((*CHECKED_MEMBERS, METADATA))}",
            f"no {', '.join(missing)}",
            COMPILE_AGAIN,
        )
    return members


def _checked_metadata(path: Path, members: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        if len(members[METADATA]) > LARGEST_METADATA_BYTES:
            raise ValueError("it is too large")
        metadata = json.loads(members[METADATA])
        version, sums = metadata["format_version"], metadata["sha256"]
        declared = {name: str(sums[name]) for name in members if name != METADATA}
    except (ValueError, KeyError, TypeError) as error:
        raise _refusal(
            path, f"a readable {METADATA}", f"{type(error).__name__}: {error}", COMPILE_AGAIN
        ) from error
    if version not in (FORMAT_VERSION, SEVERAL_PROGRAMS_VERSION):
        raise _refusal(
            path,
            f"format version {FORMAT_VERSION} or {SEVERAL_PROGRAMS_VERSION}",
            f"format version {version!r}",
            "Compile the model again with this version, or read it with the version that wrote it.",
        )
    for name in declared:
        found = hashlib.sha256(members[name]).hexdigest()
        if found != declared[name]:
            raise _refusal(
                path,
                f"{name} with SHA-256 {declared[name][:SHOWN_DIGITS]}…",
                f"{found[:SHOWN_DIGITS]}…",
                "The file is damaged: copy it again, or compile the model again.",
            )
    return dict(metadata)


# Enough of a checksum to see that two differ.
SHOWN_DIGITS = 12


def _specs(rows: Any) -> tuple[InputSpec, ...]:
    return tuple(
        InputSpec(
            str(row["name"]), tuple(int(extent) for extent in row["shape"]), str(row["dtype"])
        )
        for row in rows
    )
