"""Compare the arena of each zoo model with TVM's plan, ONNX Runtime's arena and IREE's.

    python benchmarks/arenas.py --json out/arenas.json [--iree PYTHON] [NAME...]
    python benchmarks/arenas.py --measure-ort MODEL.onnx INPUTS.npz   # what each child process runs

No kernel becomes machine code: what is compiled has empty bodies, so a model takes seconds, and the
target (``--target``) may be another processor than this machine's. All numbers are bytes, and the
same on every machine of a kind, whatever else runs there.

- *ours*: arena and outputs, kernels' workspaces included (one thread). *bare*: without workspaces,
  to compare with TVM's plan, which has none; both with inputs and outputs.
- *ORT*: what its arena takes for results, weights elsewhere (they are allocated from the device
  allocator) and no workspaces of its kernels but those it takes from the same arena. It grows by
  what is asked for, no more, and gives all of it back after a run: what one run left there would
  hide what the next takes. Results lie in memory of the caller, as ours do, and are added.
  ``ort_first`` is what the first run took; ``ort_pattern`` what the second took, by the plan that
  was made of the first. Inputs are the caller's.
- *IREE*: what its compiler plans for the target's processor, results included
  (:mod:`iree_arena`), where ``--iree`` names the Python of an environment that has it.

A file that is there is gone on with: what stands in it is not measured again (``--again`` does).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay, tir

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from iree_arena import SETTINGS, find_iree, iree_bytes
from kept_rows import read_rows, write_rows

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.build.memory import ModelMemory, memory_of
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.errors import MissingDependencyError, ModelError
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.schedules import resolve_target

ROOT = Path(__file__).resolve().parents[1]
TARGET = "llvm -mcpu=native"
RUN, RESULTS = "=== run", "=== results"
EXTENDED = re.compile(r"Extended allocation by (\d+) bytes")
# ONNX Runtime's kSameAsRequested; chunks of more dead bytes are split, 256 being the least.
SAME_AS_REQUESTED, LEAST_CHUNK = 1, 256
PROCESS_SECONDS = 600
MEBI = 2**20


def emptied(mod: tvm.IRModule) -> tvm.IRModule:
    """Return functions of the same names and parameters that do nothing."""
    nothing = tir.Evaluate(tir.ret(tir.const(0, "int32")))
    functions = {variable: func.with_body(nothing) for variable, func in mod.functions.items()}
    return tvm.IRModule(functions, attrs=mod.attrs)


def planned(mod: tvm.IRModule, target: str) -> tuple[ModelMemory, ModelMemory]:
    """Return the memory of a module's kernels, with and without their workspaces."""
    resolved = resolve_target(target)
    blocks = fx.pipeline(resolved)(mod)
    with fx.lowering(resolved) as log:
        log.in_place_of_code = emptied
        library = relay.build(blocks, resolved)
    graph, params = library.get_graph_json(), library.get_params()
    own, bare = (
        memory_of(graph, params, each, in_place=log.in_place) for each in (log.workspaces, {})
    )
    return own, bare


def row_of(name: str, mod: tvm.IRModule, target: str = TARGET) -> dict[str, Any]:
    """Return the row of a model without ONNX Runtime's part."""
    memory, bare = planned(mod, target)
    plan = memory.plan
    return {
        "model": name,
        "kernels": len(plan.order),
        "arena_bytes": plan.arena_bytes,
        "bound_bytes": plan.bound_bytes,
        "workspace_bytes": memory.workspace,
        "ours_with_outputs_bytes": plan.arena_bytes + memory.outputs,
        "ours_without_workspaces_bytes": bare.plan.arena_bytes + memory.inputs + memory.outputs,
        "tvm_bytes": memory.tvm_activations,
        "weights_bytes": memory.weights,
        "peak_kernel": plan.peak_call,
        "is_reordered": plan.order != tuple(range(len(plan.order))),
        "is_best_order": plan.is_best_order,
        "is_solved": plan.is_solved,
    }


def measure_ort(model: Path, inputs: Path) -> None:
    """Run a model thrice in ONNX Runtime, its arena's log on standard error."""
    import onnxruntime as ort

    given = dict(np.load(inputs))
    plain = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    results = [np.array(each) for each in plain.run(None, given)]
    del plain
    ort.set_default_logger_severity(0)
    memory = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    settings = {
        "max_mem": 0,
        "arena_extend_strategy": SAME_AS_REQUESTED,
        "initial_chunk_size_bytes": LEAST_CHUNK,
        "max_dead_bytes_per_chunk": LEAST_CHUNK,
    }
    ort.create_and_register_allocator(memory, ort.OrtArenaCfg(settings))
    options = ort.SessionOptions()
    options.log_severity_level = 0
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    options.add_session_config_entry("session.use_env_allocators", "1")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    for port, array in zip(session.get_outputs(), results, strict=True):
        binding.bind_ortvalue_output(port.name, ort.OrtValue.ortvalue_from_numpy(array))
    shrinking = ort.RunOptions()
    shrinking.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    print(f"{RESULTS} {sum(array.nbytes for array in results)}", file=sys.stderr)
    for _ in range(3):
        print(RUN, file=sys.stderr, flush=True)
        session.run_with_iobinding(binding, shrinking)
    print(RUN, file=sys.stderr, flush=True)


def read_ort_log(text: str) -> dict[str, int]:
    """Return what the arena grew by in the first and in the second run."""
    before, *parts = text.split(RUN)
    results = int(before.rsplit(RESULTS, 1)[1])
    first, second, *_ = (sum(map(int, EXTENDED.findall(part))) + results for part in parts)
    return {"ort_first_bytes": first, "ort_pattern_bytes": second}


def ort_bytes(model: Path, inputs: dict[str, np.ndarray]) -> dict[str, int]:
    """Measure ONNX Runtime's arena in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "inputs.npz"
        np.savez(held, **inputs)  # type: ignore[arg-type]
        command = [sys.executable, __file__, "--measure-ort", str(model), str(held)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
        )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["silence"])[-1])
    return read_ort_log(done.stderr)


def measured(
    name: str, folder: Path, known: dict[str, Any], iree: Path | None, target: str = TARGET
) -> dict[str, Any]:
    """Return the row of a zoo model, with what is not yet known of it."""
    if not _missing(known, iree):
        return known
    start = time.monotonic()
    exported = zoo.export(name, folder / f"{name}.onnx")
    mod, params = fx.from_onnx(exported.path, shape=exported.shapes)
    row = known or row_of(name, bind_parameters(mod, params), target)
    given = inputs_of(mod, params)
    shapes = {each.name: each.shape for each in given}
    sides: dict[str, Callable[[], dict[str, int]]] = {
        "ort": lambda: ort_bytes(exported.path, random_inputs(given)),
        "iree": lambda: iree_bytes(
            exported.path, shapes, Path(iree or ""), str(resolve_target(target).mcpu)
        ),
    }
    for side in _missing(row, iree):
        try:
            row |= sides[side]()
        except (RuntimeError, ModelError, subprocess.TimeoutExpired) as error:
            row[f"{side}_failed"] = str(error)
    exported.path.unlink()
    row["seconds"] = round(time.monotonic() - start, 1)
    return row


def _missing(row: dict[str, Any], iree: Path | None) -> list[str]:
    """Return the sides of which a row says nothing, not even that they failed."""
    wanted = ["ort", *(["iree"] if iree is not None else [])]
    return [side for side in wanted if not any(key.startswith(f"{side}_") for key in row)]


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    least = (f"iree_{setting}_bytes" for setting in SETTINGS)
    iree = min((row[name] for name in least if name in row), default=None)
    columns = [row["ours_with_outputs_bytes"], row.get("ort_pattern_bytes"), iree]
    columns += [row["ours_without_workspaces_bytes"], row["tvm_bytes"]]
    shown = ["-" if each is None else f"{each / MEBI:.2f}" for each in columns]
    changed = "reordered" if row["is_reordered"] else ""
    gap = row["arena_bytes"] - row["bound_bytes"]
    print(
        f"{row['model']:22} ours {shown[0]:>8}  ORT {shown[1]:>8}  IREE {shown[2]:>8}  "
        f"bare {shown[3]:>8}  TVM {shown[4]:>8}  gap {gap}  {changed}",
        flush=True,
    )


def main() -> None:
    """Measure the models that are named, or all, and write the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(zoo.names()))
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "arenas.json")
    parser.add_argument("--iree", type=Path, metavar="PYTHON", help="of an environment with IREE")
    parser.add_argument("--target", default=TARGET)
    parser.add_argument("--again", action="store_true", help="measure anew what the file has")
    parser.add_argument("--measure-ort", nargs=2, type=Path, metavar=("MODEL", "INPUTS"))
    chosen = parser.parse_args()
    if chosen.measure_ort:
        measure_ort(*chosen.measure_ort)
        return
    if chosen.iree is not None:
        try:
            find_iree(chosen.iree)
        except MissingDependencyError as error:
            parser.error(str(error))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    content = {"target": str(resolve_target(chosen.target)), "versions": build_versions()}
    rows = read_rows(chosen.json, content)
    print("MiB. ours, ORT and IREE: outputs included; bare and TVM: no workspaces, inputs included")
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.names:
            known = {} if chosen.again else rows.get(name, {})
            rows[name] = measured(name, Path(folder), known, chosen.iree, chosen.target)
            show(rows[name])
            write_rows(chosen.json, content, rows)


if __name__ == "__main__":
    main()
