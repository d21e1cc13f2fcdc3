"""What a compiled model takes: bytes of code and tensors, and the memory of a process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.inputs import write_arrays
from tvm_fusionx.report.bench.kept_build import CODE_FILE, kernel_workspaces, save_library

# Runs after which a runtime has allocated all that it will.
RUNS = 3
# Loading and running a model takes seconds; a process that takes longer hangs.
PROCESS_SECONDS = 300

# Memory of the process itself, when the model comes and when it has run. The first is taken with
# the runtime's package loaded, so that the difference is the model's.
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np
KIBI = 1024
side, model, folder, threads, runs, kept = sys.argv[1:]
model, folder, threads, runs = Path(model), Path(folder), int(threads), int(runs)
conversions = Path(kept) if kept else None
inputs = dict(np.load(folder / "inputs.npz"))
def status(field):
    # Not from getrusage, whose peak is the parent's where that was larger when it forked.
    return int(Path("/proc/self/status").read_text().split(field + ":")[1].split()[0]) * KIBI
if (folder / "mod.ro").is_file():
    import tvm
    from tvm.runtime import vm
    before = status("VmRSS")
    module = tvm.runtime.load_module(str(folder / "mod.so"))
    bytecode = bytearray((folder / "mod.ro").read_bytes())
    machine = vm.VirtualMachine(vm.Executable.load_exec(bytecode, module), tvm.cpu())
    del bytecode
    given = [tvm.nd.array(value) for value in inputs.values()]
    run = lambda: machine.invoke("main", *given)
elif (folder / "mod.so").is_file():
    import tvm
    from tvm.contrib import graph_executor
    before = status("VmRSS")
    module = tvm.runtime.load_module(str(folder / "mod.so"))
    graph = (folder / "mod.json").read_text()
    executor = graph_executor.create(graph, module, tvm.cpu())
    # One at a time: load_params holds all of them three times over.
    with np.load(folder / "params.npz") as params:
        for name in params:
            executor.set_input(name, params[name])
    for name, value in inputs.items():
        executor.set_input(name, value)
    run = executor.run
else:
    from tvm_fusionx.report.peers import PACKAGES, prepare_peer
    from tvm_fusionx.report.peers.conversions import Conversions
    __import__(PACKAGES[side])
    before = status("VmRSS")
    run = prepare_peer(side, model, inputs, threads, Conversions(conversions)).run
for _ in range(runs):
    run()
after, peak = status("VmRSS"), status("VmHWM")
print(json.dumps({"before": before, "after": after, "peak": peak}))
"""


@dataclass(frozen=True)
class PlannedBytes:
    """What TVM's memory planner lays out for one library.

    Attributes
    ----------
    weights
        Constants, packed as the kernels read them.
    activations
        Everything else in the executor's pool: inputs, outputs, and the tensors between kernels,
        which share memory where their lives do not meet.
    workspace
        What the hungriest kernel allocates while it runs, by TVM's count: buffers within its tasks
        count once, though each thread has its own. None where the library does not tell.
    """

    weights: int
    activations: int
    workspace: int | None = None

    def to_json(self) -> dict[str, int]:
        """Return the sizes by name, without those that are not known."""
        return {name: size for name, size in asdict(self).items() if size is not None}


def planned_bytes(library: Any) -> PlannedBytes:
    """Read the memory plan of a graph-executor factory module."""
    text = library.get_graph_json()
    graph = json.loads(text)
    storages = graph["attrs"]["storage_id"][1]
    sizes = [tensor.bytes for node in KernelGraph.from_json(text).nodes for tensor in node.outputs]
    constants = {
        graph["node_row_ptr"][index]
        for index, node in enumerate(graph["nodes"])
        if node["op"] == "null" and node["name"] in library.get_params()
    }
    pool: dict[int, int] = {}
    held: dict[int, int] = {}
    for entry, (storage, size) in enumerate(zip(storages, sizes, strict=True)):
        pool[storage] = max(pool.get(storage, 0), size)
        if entry in constants:
            held[storage] = max(held.get(storage, 0), size)
    weights = sum(held.values())
    kernels = kernel_workspaces(library).values()
    return PlannedBytes(weights, sum(pool.values()) - weights, max(kernels, default=None))


def save_for_a_process(library: Any, inputs: Mapping[str, np.ndarray], folder: Path) -> int:
    """Write what :func:`process_memory` reads of a TVM side; return the bytes of the code."""
    save_library(library, folder)
    save_inputs(inputs, folder)
    return (folder / CODE_FILE).stat().st_size


def save_inputs(inputs: Mapping[str, np.ndarray], folder: Path) -> None:
    """Write the inputs where :func:`process_memory` looks for them."""
    write_arrays(folder / "inputs.npz", inputs)


def process_memory(
    side: str, model: Path, folder: Path, threads: int, conversions: Path | None = None
) -> dict[str, int]:
    """Load and run a model in a fresh process and return that process's memory.

    Parameters
    ----------
    side
        One of TVM's, whose library is in `folder`, or a peer that reads `model` itself.
    folder
        What :func:`save_for_a_process` wrote, or :func:`save_inputs` for a peer.
    conversions
        Where a peer finds the model converted.

    Returns
    -------
    dict of str to int
        Bytes in memory ``before`` the model is loaded and ``after`` it has run, and their ``peak``.

    Raises
    ------
    RuntimeError
        The process failed.
    """
    command = [sys.executable, "-c", SCRIPT, side, str(model), str(folder), str(threads), str(RUNS)]
    command.append("" if conversions is None else str(conversions))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"measuring the memory of {side} failed: {lines[-1]}")
    found: dict[str, int] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def footprint(
    libraries: Mapping[str, Any],
    peers: tuple[str, ...],
    model: Path,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    conversions: Path | None = None,
) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return the bytes of code of each library, and the memory of a process for each side.

    A side whose process fails has no memory; why it fails is known from its timing.
    """
    code: dict[str, int] = {}
    memory: dict[str, dict[str, int]] = {}
    for side in (*libraries, *peers):
        with tempfile.TemporaryDirectory(prefix="fusionx-memory-") as name:
            folder = Path(name)
            if side in libraries:
                code[side] = save_for_a_process(libraries[side], inputs, folder)
            else:
                save_inputs(inputs, folder)
            try:
                memory[side] = process_memory(side, model, folder, threads, conversions)
            except (RuntimeError, subprocess.TimeoutExpired):
                continue
    return code, memory
