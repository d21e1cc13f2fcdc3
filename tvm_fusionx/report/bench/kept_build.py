"""Graph-executor libraries in a folder: for another process, and for the next benchmark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tvm
from tvm.relay.backend import Executor
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_fusionx._tvm import cures
from tvm_fusionx._tvm.arrays import numpy_of, with_brains
from tvm_fusionx._tvm.object_files import export_library
from tvm_fusionx.build.vm_program import VmProgram
from tvm_fusionx.inputs import write_arrays
from tvm_fusionx.report.bench import plain_tvm
from tvm_fusionx.report.peers.conversions import Conversions

CODE_FILE = "mod.so"
GRAPH_FILE = "mod.json"
# In its place, and in that of constants, what TVM's virtual machine runs.
BYTECODE_FILE = "mod.ro"
CONSTANTS_FILE = "params.npz"
WORKSPACES_FILE = "workspaces.json"
FACTS_FILE = "facts.json"
# TVM's name for the sum of all.
WHOLE_MODEL = "__tvm_main__"
# The name that the graph executor looks for.
MODULE_NAME = "default"


@dataclass(frozen=True)
class KernelInfo:
    """What TVM knows of one kernel of a library: the part of it that is read here."""

    workspace_sizes: Mapping[Any, int]


class KeptLibrary(GraphExecutorFactoryModule):
    """A library read from :attr:`folder`; TVM cannot write out code that it has loaded."""

    folder: Path


def kernel_workspaces(library: Any) -> dict[str, int]:
    """Return the bytes that each kernel allocates while it runs; none where TVM does not tell."""
    return {
        str(name): sum(int(size) for size in kernel.workspace_sizes.values())
        for name, kernel in library.function_metadata.items()
        if str(name) != WHOLE_MODEL
    }


def save_library(library: Any, folder: Path) -> None:
    """Write the code, graph and constants of a graph-executor factory module, or a VmProgram."""
    if isinstance(library, VmProgram):
        export_library(library.module, folder / CODE_FILE)
        (folder / BYTECODE_FILE).write_bytes(library.bytecode)
        return
    if isinstance(library, KeptLibrary):
        shutil.copytree(library.folder, folder, dirs_exist_ok=True)
        return
    export_library(library.get_lib(), folder / CODE_FILE)
    (folder / GRAPH_FILE).write_text(library.get_graph_json(), encoding="utf-8")
    workspaces = kernel_workspaces(library)
    (folder / WORKSPACES_FILE).write_text(json.dumps(workspaces), encoding="utf-8")
    constants: dict[str, Any] = {
        name: numpy_of(value) for name, value in library.get_params().items()
    }
    write_arrays(folder / CONSTANTS_FILE, constants)


def load_library(folder: Path, target: tvm.target.Target) -> KeptLibrary:
    """Read what :func:`save_library` wrote."""
    with np.load(folder / CONSTANTS_FILE) as arrays:
        constants = {name: tvm.nd.array(with_brains(arrays[name])) for name in arrays}
    told = folder / WORKSPACES_FILE
    workspaces = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {}
    library = KeptLibrary(
        None,
        target,
        Executor("graph"),
        (folder / GRAPH_FILE).read_text(encoding="utf-8"),
        tvm.runtime.load_module(str(folder / CODE_FILE)),
        MODULE_NAME,
        constants,
        {name: KernelInfo({target: size}) for name, size in workspaces.items()},
    )
    library.folder = folder
    return library


def kept_plain(
    conversions: Conversions,
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    *,
    own_definitions: bool = False,
) -> GraphExecutorFactoryModule:
    """Return TVM's default build as :func:`~plain_tvm.build_plain` makes it, or made it before."""
    library, _ = kept_library(
        conversions,
        "tvm",
        mod,
        target,
        params,
        str(own_definitions),
        (plain_tvm, cures),
        lambda: (plain_tvm.build_plain(mod, target, params, own_definitions=own_definitions), {}),
    )
    return library


def kept_library(
    conversions: Conversions,
    compiler: str,
    mod: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, Any] | None,
    settings: str,
    code: Sequence[ModuleType],
    build: Callable[[], tuple[Any, dict[str, Any]]],
) -> tuple[Any, dict[str, Any]]:
    """Return what `build` makes, or made of the same model before.

    Parameters
    ----------
    compiler
        A name for the folder.
    mod, target, params
        What is built.
    settings
        All else that the result depends on.
    code
        Modules that a change of which makes another result.
    build
        Returns a graph-executor factory module, and facts about it that JSON can hold.
    """
    if conversions.root is None:
        return build()
    bound = dict(params or {})
    sources: list[str | Path] = [
        # Of types and the bytes of all constants; not of the names that inputs are set by.
        f"{tvm.ir.structural_hash(mod, map_free_vars=True)} {tvm.ir.structural_hash(bound)}",
        " ".join(param.name_hint for param in mod["main"].params),
        f"{target} {settings} {tvm.__version__}",
        *(Path(str(module.__file__)) for module in code),
    ]

    def save(folder: Path) -> None:
        library, facts = build()
        save_library(library, folder)
        if facts:
            (folder / FACTS_FILE).write_text(json.dumps(facts, indent=2), encoding="utf-8")

    with conversions.made(compiler, sources, save) as folder:
        told = folder / FACTS_FILE
        facts = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {}
        return load_library(folder, target), facts
