"""The library file of a model for TVM's virtual machine.

``LIB.tar`` holds ``mod.so``, the kernels; ``mod.ro``, the machine's bytecode with the constants;
and ``fusionx.json``, as for the graph executor.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tvm

from tvm_fusionx.build.archive import (
    BYTECODE,
    CODE,
    COMPILE_AGAIN,
    METADATA,
    VM_VERSION,
    checked_metadata,
    linked,
    loaded_code,
    read_members,
    refusal,
    sha256_of,
    write_members,
)
from tvm_fusionx.build.kernels import KernelNote
from tvm_fusionx.build.library import Library, load_programs
from tvm_fusionx.build.vm_program import OutputSpec, VmProgram
from tvm_fusionx.devices import Device
from tvm_fusionx.inputs import InputSpec


def save_vm_program(
    program: VmProgram,
    path: str | Path,
    compiler: str | None = None,
    device: Device | None = None,
) -> None:
    """Write `program` to `path`, all of it or nothing.

    Parameters
    ----------
    compiler, device
        What links, as for :func:`tvm_fusionx.build.library.save_library`, which raises the same.
    """
    members = {
        CODE: linked(program.module, program.target, compiler, device),
        BYTECODE: program.bytecode,
    }
    metadata = {
        "format_version": VM_VERSION,
        "executor": "vm",
        "reason": program.reason,
        "model": program.model,
        "target": program.target,
        "versions": dict(program.versions),
        "inputs": [asdict(spec) for spec in program.inputs],
        "outputs": [asdict(spec) for spec in program.outputs],
        "kernel_count": len(program.kernels),
        "kernels": [asdict(note) for note in program.kernels],
        "sha256": sha256_of(members),
    }
    write_members(path, {**members, METADATA: json.dumps(metadata, indent=1).encode()})


def load_model(path: str | Path) -> VmProgram | tuple[Library, ...]:
    """Read a library file of either kind, and load its code here.

    Raises
    ------
    LibraryFileError
        As for :func:`tvm_fusionx.build.library.load_programs`.
    """
    path = Path(path)
    members = read_members(path)
    if BYTECODE not in members:
        return load_programs(path)
    metadata = checked_metadata(path, members)
    module = loaded_code(path, members, metadata, None)
    try:
        program = VmProgram(
            members[BYTECODE],
            module,
            str(metadata["model"]),
            str(metadata["target"]),
            tuple(
                InputSpec(str(row["name"]), tuple(map(int, row["shape"])), str(row["dtype"]))
                for row in metadata["inputs"]
            ),
            tuple(map(_output, metadata["outputs"])),
            tuple(map(KernelNote.from_json, metadata["kernels"])),
            dict(metadata["versions"]),
            str(metadata["reason"]),
        )
        program.machine()
    except (KeyError, TypeError, ValueError, tvm.TVMError) as error:
        raise refusal(
            path, f"a complete {METADATA}", f"{type(error).__name__}: {error}", COMPILE_AGAIN
        ) from error
    return program


def _output(row: Any) -> OutputSpec:
    dims = tuple(None if dim is None else int(dim) for dim in row["dims"])
    return OutputSpec(str(row["name"]), dims, str(row["dtype"]))
