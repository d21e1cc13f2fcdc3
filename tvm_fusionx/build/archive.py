"""The tar that a library file is: written whole, and checked before anything in it is used.

Reading unpickles and executes nothing before it is checked.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib import cc

from tvm_fusionx._tvm.object_files import export_library
from tvm_fusionx.devices import Device, export_kernel
from tvm_fusionx.errors import DeviceError, LibraryFileError, LinkError, MissingDependencyError
from tvm_fusionx.output_file import check_space, new_file, reported_space

# Of a file with one program, with several, with one for TVM's virtual machine, and with versions
# for several cores.
FORMAT_VERSION = 1
SEVERAL_PROGRAMS_VERSION = 2
VM_VERSION = 3
SEVERAL_CORES_VERSION = 4
VERSIONS = (FORMAT_VERSION, SEVERAL_PROGRAMS_VERSION, VM_VERSION, SEVERAL_CORES_VERSION)

# The names are tvmc's: ``tvmc run`` takes the file as its own.
CODE = "mod.so"
GRAPH = "mod.json"
PARAMS = "mod.params"
METADATA = "fusionx.json"
CHECKED_MEMBERS = (CODE, GRAPH, PARAMS)
# In the place of graph and parameters: bytecode of the virtual machine, with its constants.
BYTECODE = "mod.ro"
VM_MEMBERS = (CODE, BYTECODE)
OTHER_GRAPH = "program{}.json"
_OTHER_GRAPH_NAME = re.compile(r"program[1-9][0-9]{0,2}\.json")

# A description is a few kilobytes, plus a line for each kernel; more is not ours.
LARGEST_METADATA_BYTES = 64 * 2**20


def write_members(path: str | Path, members: Mapping[str, bytes]) -> None:
    """Write a tar of `members`, all of it or nothing."""
    with new_file(path) as scratch, tarfile.open(scratch, "w") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))


def sha256_of(members: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each member."""
    return {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}


def linked(module: Any, target: str, compiler: str | None, device: Device | None) -> bytes:
    """Return the shared library of a module, linked by a compiler here or by a device's linker."""
    with reported_space(), tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
        code = Path(folder) / CODE
        if device is None:
            _link(module, target, code, compiler)
        else:
            export_kernel(module, code, device)
        return code.read_bytes()


def _link(module: Any, target: str, code: Path, compiler: str | None) -> None:
    command = compiler or cc.get_cc()
    if command is None or shutil.which(command) is None:
        raise MissingDependencyError(
            "C++ compiler",
            expected=compiler or "g++, clang++, or the one that CXX names",
            found="none on the path",
            next_step="Install one (Debian: apt-get install g++), or name another.",
        )
    try:
        export_library(module, code, fcompile=cc.cross_compiler(command))
    except RuntimeError as error:
        # Between TVM's headline and its command line stands what the compiler printed.
        said = [line for line in str(error).splitlines()[1:-1] if line.strip()]
        check_space("\n".join(said))
        raise LinkError(
            f"linking by {command}",
            expected=f"a shared library for {target}",
            found=said[-1].strip() if said else "a compiler that fails and says nothing",
            next_step="Name the target's own C++ compiler with --cross-compiler (compiler=).",
        ) from error


def loaded_code(
    path: Path,
    members: Mapping[str, bytes],
    metadata: Mapping[str, Any],
    load: Callable[[str], Any] | None,
) -> Any:
    """Return the module of a checked file's code, by `load` or else by TVM, here."""
    with reported_space(), tempfile.TemporaryDirectory(prefix="fusionx-") as folder:
        code = Path(folder) / CODE
        code.write_bytes(members[CODE])
        try:
            # Loaded code stays mapped when its file goes.
            return (load or tvm.runtime.load_module)(str(code))
        except DeviceError:
            raise
        except (tvm.TVMError, OSError, ValueError) as error:
            raise refusal(
                path,
                "code that this machine can load",
                str(error).strip().splitlines()[-1],
                f"It was built for {metadata['target']!r}; compile it again on this machine.",
            ) from error


COMPILE_AGAIN = "Compile the model again with `fusionx compile`."


def refusal(path: Path, expected: str, found: str, next_step: str) -> LibraryFileError:
    """Return the error that says what is wrong with a library file."""
    return LibraryFileError(
        f"library file {path}", expected=expected, found=found, next_step=next_step
    )


def read_members(path: Path) -> dict[str, bytes]:
    """Read the members into memory; nothing is extracted, so no name can lead outside a folder."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                is_known = member.name in (*CHECKED_MEMBERS, BYTECODE, METADATA)
                is_known |= _OTHER_GRAPH_NAME.fullmatch(member.name) is not None
                if not is_known or not member.isfile():
                    raise refusal(
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
        raise refusal(
            path,
            "a readable tar file that `fusionx compile` wrote",
            str(error),
            "Check the path, or compile the model again.",
        ) from error
    needed = (*(VM_MEMBERS if BYTECODE in members else CHECKED_MEMBERS), METADATA)
    missing = [name for name in needed if name not in members]
    if missing:
        raise refusal(
            path,
            f"the members {', '.join(needed)}",
            f"no {', '.join(missing)}",
            COMPILE_AGAIN,
        )
    return members


def checked_metadata(path: Path, members: Mapping[str, bytes]) -> dict[str, Any]:
    """Return a file's description, after every checksum in it agreed."""
    try:
        if len(members[METADATA]) > LARGEST_METADATA_BYTES:
            raise ValueError("it is too large")
        metadata = json.loads(members[METADATA])
        version, sums = metadata["format_version"], metadata["sha256"]
        declared = {name: str(sums[name]) for name in members if name != METADATA}
    except (ValueError, KeyError, TypeError) as error:
        raise refusal(
            path, f"a readable {METADATA}", f"{type(error).__name__}: {error}", COMPILE_AGAIN
        ) from error
    if version not in VERSIONS or (version == VM_VERSION) != (BYTECODE in members):
        raise refusal(
            path,
            f"format version {' or '.join(map(str, VERSIONS))}, and its members",
            f"format version {version!r}",
            "Compile the model again with this version, or read it with the version that wrote it.",
        )
    for name in declared:
        found = hashlib.sha256(members[name]).hexdigest()
        if found != declared[name]:
            raise refusal(
                path,
                f"{name} with SHA-256 {declared[name][:SHOWN_DIGITS]}…",
                f"{found[:SHOWN_DIGITS]}…",
                "The file is damaged: copy it again, or compile the model again.",
            )
    return dict(metadata)


# Enough of a checksum to see that two differ.
SHOWN_DIGITS = 12
