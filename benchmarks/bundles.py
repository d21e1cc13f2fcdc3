"""Time bundles from the start of a process to its first answer, beside other runtimes.

    python benchmarks/bundles.py --prepare                 # build and convert; need not be quiet
    python benchmarks/bundles.py --json benchmarks/results/bundles.json [--again] [NAME...]

What was prepared lies in out/bundles, and is made anew where our sources are others by then.
Each run is a new process, one thread, the sides taking turns; inputs are the same random ones. The
program's file and the model's are in the system's memory, for they were read just before.

- *C*: a program of C with the bundle linked in, weights mapped from a file beside it.
- *C embedded*: the same with the weights in the program.
- *Python*: the bundle's loader. The other runtimes run in Python, too, and *bare* is Python that
  imports numpy and answers at once: what is above it is the runtime's.

``start_ms`` is from before the process is made to its first line, which it writes when it has the
answer; then it tells its memory (``VmRSS``, of it ``RssAnon``, which no other process shares, and
``VmHWM``). ``code_bytes`` are those of shared libraries that a side loads, Python's own left out.
``steady_ms`` is of the bundle, by its loader in Python, and of the graph executor, in one process
and one thread, taking turns.

A file that is there is gone on with: models that stand in it are left out, but with ``--again``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bundle_sides import (
    FIELDS,
    MODULES,
    PROGRAM,
    one_run,
    peer_versions,
    shared_libraries_bytes,
    sides_of,
)
from int8 import sources
from int8_models import quantize
from kept_rows import read_rows, write_rows

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.bundle.names import identifier
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.output_file import make_folder, new_folder
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.peers import mnn_session, ncnn_net

ROOT = Path(__file__).resolve().parents[1]
TARGET = "llvm -mcpu=native"
INT8 = ":int8"
MODELS = ("minilm", "ppocr-det", "mobilenet-v2", f"resnet18{INT8}")
RUNS = 7
STEADY_TURNS, STEADY_RUNS = 7, 10
PREPARED = ROOT / "out" / "bundles"
ROW, INPUTS, EXECUTOR = "row.json", "given.npz", "executor.so"


def prepared(name: str, facts: dict[str, Any]) -> Path:
    """Return the folder with all that running a model takes; make it where it is not there."""
    folder = PREPARED / name.replace(INT8, "-int8")
    row = folder / ROW
    if not row.is_file() or json.loads(row.read_text(encoding="utf-8"))["facts"] != facts:
        make_folder(PREPARED)
        with new_folder(folder) as scratch:
            found = {"facts": facts, **prepare(name, scratch)}
            (scratch / ROW).write_text(json.dumps(found, indent=1), encoding="utf-8")
    return folder


def prepare(name: str, folder: Path) -> dict[str, Any]:
    """Build the bundles of a model, convert it for the others; return what is known then."""
    plain = name.removesuffix(INT8)
    exported = zoo.export(plain, folder / "model.onnx")
    if name.endswith(INT8):
        (folder / "float").mkdir()
        quantize(folder / "float", plain).rename(folder / "model.onnx")
    mod, params = fx.from_onnx(folder / "model.onnx", shape=exported.shapes)
    begun = time.perf_counter()
    library = fx.build(mod, TARGET, params)
    row: dict[str, Any] = {"model": name, "build_seconds": time.perf_counter() - begun}
    inputs = random_inputs(inputs_of(mod, params))
    inside = folder / "embedded-bundle" / "net"
    inside.parent.mkdir()
    fx.export_bundle(library, inside, weights="embedded")
    memory = fx.export_bundle(library, folder / "net", weights="beside")
    for bundle, program in ((inside, "embedded"), (folder / "net", "beside")):
        source = bundle / "timed.c"
        source.write_text(PROGRAM, encoding="utf-8")
        words = ["gcc", "-O2", str(source), str(bundle / "libnet.a"), "-lm", "-o"]
        subprocess.run([*words, str(folder / program)], check=True)
    for number, array in enumerate(inputs.values()):
        array.tofile(folder / f"{number}.bin")
    renamed = {identifier(key): value for key, value in inputs.items()}
    np.savez(folder / "inputs.npz", **renamed)  # type: ignore[arg-type]
    np.savez(folder / INPUTS, **inputs)  # type: ignore[arg-type]
    library.export_library(str(folder / EXECUTOR))
    row |= {
        "weights_bytes": memory.weights,
        "arena_bytes": memory.plan.arena_bytes,
        "library_bytes": (folder / "net" / "libnet.so").stat().st_size,
        "program_bytes": (folder / "beside").stat().st_size,
        "is_equal": _is_equal(library, inputs, folder),
        "failed": _converted(folder, inputs),
    }
    return row


def _is_equal(library: Any, inputs: dict[str, np.ndarray], folder: Path) -> bool:
    """Tell whether the program's outputs are the graph executor's, to the bit."""
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for key, value in inputs.items():
        executor.set_input(key, value)
    executor.run()
    subprocess.run(sides_of(folder, inputs)["C"], check=True, capture_output=True)
    count = executor.get_num_outputs()
    answers = [executor.get_output(number).numpy().tobytes() for number in range(count)]
    return answers == [(folder / f"{number}.out").read_bytes() for number in range(count)]


def _steady(library: Any, inputs: dict[str, np.ndarray], bundle: Path) -> dict[str, Any]:
    """Time the bundle and the graph executor, warm; the medians of turns."""
    spec = importlib.util.spec_from_file_location("net_timed", bundle / "net.py")
    assert spec is not None
    assert spec.loader is not None
    loaded: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    model = loaded.Model()
    given = {identifier(key): value for key, value in inputs.items()}
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(**inputs)
    sides: dict[str, Callable[[], Any]] = {
        "bundle": lambda: model.run(**given),
        "executor": executor.run,
    }
    found: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(STEADY_TURNS):
        for side, run in sides.items():
            run()
            begun = time.perf_counter()
            for _ in range(STEADY_RUNS):
                run()
            found[side].append((time.perf_counter() - begun) * 1e3 / STEADY_RUNS)
    model.close()
    medians = {side: statistics.median(times) for side, times in found.items()}
    return {**medians, "all": {side: [round(t, 3) for t in times] for side, times in found.items()}}


def _converted(folder: Path, inputs: dict[str, np.ndarray]) -> dict[str, str]:
    """Convert the model for MNN and ncnn; return why not, by side."""
    import onnx

    model = folder / "model.onnx"
    graph = onnx.load(str(model), load_external_data=False).graph
    given = {tensor.name for tensor in graph.initializer}
    taken = [tensor.name for tensor in graph.input if tensor.name not in given]
    lines = ["\t".join(taken), "\t".join(tensor.name for tensor in graph.output)]
    (folder / "names").write_text("\n".join(lines), encoding="utf-8")

    def for_ncnn() -> None:
        made = folder / "ncnn"
        made.mkdir()
        ncnn_net._convert(ncnn_net._pnnx_program(), model, inputs, made)
        for path in list(made.iterdir()):
            path.rename(folder / path.name)

    steps: dict[str, Callable[[], None]] = {
        "MNN": lambda: mnn_session._convert(model, folder / "model.mnn"),
        "ncnn": for_ncnn,
    }
    failed = {}
    for side, step in steps.items():
        try:
            step()
        except Exception as error:  # whatever a converter raises
            failed[side] = str(error)[:300]
    return failed


def measured(folder: Path, runs: int) -> dict[str, Any]:
    """Return the row of a model that was prepared."""
    row: dict[str, Any] = json.loads((folder / ROW).read_text(encoding="utf-8"))
    inputs = dict(np.load(folder / INPUTS))
    library = tvm.runtime.load_module(str(folder / EXECUTOR))
    row["steady_ms"] = _steady(library, inputs, folder / "net")
    found: dict[str, list[dict[str, float]]] = {}
    commands = sides_of(folder, inputs)
    for _ in range(runs):
        for side, words in commands.items():
            if side in row["failed"]:
                continue
            try:
                found.setdefault(side, []).append(one_run(words))
            except RuntimeError as error:
                row["failed"][side] = str(error)
    row["sides"] = {
        side: {
            "start_ms": statistics.median(each["start_ms"] for each in rows),
            "start_ms_all": [round(each["start_ms"], 2) for each in rows],
            **{field: statistics.median(each[field] for each in rows) for field in FIELDS},
            "code_bytes": code_bytes(side, row),
        }
        for side, rows in found.items()
        if side not in row["failed"]
    }
    del row["facts"]
    return row


def code_bytes(side: str, row: dict[str, Any]) -> int | None:
    """Return the size of what a side needs beside the model, or None for Python alone."""
    if side in ("C", "C embedded", "Python"):
        return int(row["library_bytes"])
    return shared_libraries_bytes(MODULES[side]) if side in MODULES else None


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    steady = row["steady_ms"]
    print(
        f"{row['model']}: equal {row['is_equal']}, {row['library_bytes'] / 1024:.0f} KiB of code, "
        f"warm {steady['bundle']:.2f} ms, graph executor {steady['executor']:.2f} ms"
    )
    for side, each in row["sides"].items():
        sizes = "  ".join(f"{field} {each[field] / 1024:7.1f} MiB" for field in FIELDS)
        print(f"  {side:11} {each['start_ms']:8.1f} ms  {sizes}", flush=True)
    for side, why in row["failed"].items():
        print(f"  {side:11} {why}", flush=True)


def main() -> None:
    """Measure the models that are named, and write the JSON after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "bundles.json")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--again", action="store_true", help="measure anew what the file has")
    parser.add_argument("--prepare", action="store_true", help="build and convert, measure nothing")
    chosen = parser.parse_args()
    make_folder(chosen.json.parent)
    fx.threads(1)
    content = {"device": describe_device(), "versions": {**build_versions(), **peer_versions()}}
    facts = {**content, "sources": sources()}
    rows = {} if chosen.again else read_rows(chosen.json, content)
    for name in chosen.names:
        if chosen.prepare or name not in rows:
            folder = prepared(name, facts)
            if chosen.prepare:
                print(f"{name}: {folder}", flush=True)
                continue
            rows[name] = measured(folder, chosen.runs)
            write_rows(chosen.json, content, rows)
        show(rows[name])


if __name__ == "__main__":
    main()
