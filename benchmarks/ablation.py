"""Take parts of the optimisation away, and see what each is worth.

    python benchmarks/ablation.py [efficientnet-b0 gpt2] [--models out/zoo] [--json ablation.json]

Five versions of each model of the zoo: with neither rewriting nor fusion, without rewriting,
without fusion, with data movements as kernels of their own, and all. Printed are kernels that do
work, bytes that kernels hand to each other, planning time, and the median latency of interleaved
runs; DNNFusion shows the same in Figure 7 and Table 5.

Building takes minutes and cares for no noise, timing takes seconds and does: --repeat 0 with
--libraries FOLDER builds alone, and a second call with the folder times what lies there. One
folder holds what one commit built. What is timed goes beside the newest run of the zoo on this
device, in the place of what the file says of the same models.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import ABLATION, commit_here, newest_run

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.fusion import Plan, PlannerOptions
from tvm_fusionx.lowering import lowering
from tvm_fusionx.operators import MOVEMENTS, REORGANIZE
from tvm_fusionx.output_file import new_file
from tvm_fusionx.passes import FuseByMapping, PackLayouts, RewriteGraph
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.report.explain.explain import report_plan
from tvm_fusionx.schedules import resolve_target

# One of each kind, among them those that fusion changes most.
MODELS = ("efficientnet-b0", "gpt2", "s3d", "yolo-v4")
TARGET = "llvm -mcpu=native"
KIBI = 1024
HASH_BITS = (1 << 64) - 1

# Version -> whether laws are applied, and how it is planned. Layouts are always packed: without,
# the templates would be others.
VERSIONS: dict[str, tuple[bool, PlannerOptions]] = {
    "neither": (False, PlannerOptions(fuse=False)),
    "no rewriting": (False, PlannerOptions()),
    "no fusion": (True, PlannerOptions(fuse=False)),
    "movements apart": (True, PlannerOptions(deny=frozenset(MOVEMENTS - REORGANIZE))),
    "all": (True, PlannerOptions()),
}


def planned(mod: Any, target: Any, version: str) -> tuple[Any, Plan, float]:
    """Return a version's module and plan, and the seconds that planning took."""
    rewrite, options = VERSIONS[version]
    passes = [RewriteGraph()] if rewrite else []
    mod = tvm.transform.Sequential([*passes, PackLayouts(target)])(mod)
    started = time.perf_counter()
    fused, plans = fuse_module(mod, FuseByMapping(target, options=options).planner_options())
    return fused, plans["main"], time.perf_counter() - started


def built(fused: Any, target: Any, folder: Path, model: str) -> Path:
    """Build a version into a file of the folder, unless it is there."""
    # Versions without a difference are one library.
    path = folder / f"{model}-{tvm.ir.structural_hash(fused, True) & HASH_BITS:016x}.so"
    if not path.is_file():
        with lowering(target):
            library = relay.build(fused, target)
        folder.mkdir(parents=True, exist_ok=True)
        with new_file(path) as scratch:
            library.export_library(str(scratch))
    return path


def ready(path: Path, inputs: Mapping[str, Any]) -> Any:
    """Load a version and return its run function with the inputs set."""
    library = tvm.runtime.load_module(str(path.resolve()))
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, value in inputs.items():
        module.set_input(name, value)
    return module.run


def measure(
    name: str, folder: Path, repeat: int, libraries: Path | None, versions: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the numbers of the versions of one model."""
    path = folder / f"{name}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        zoo.export(name, path)
    inputs = zoo.sample_inputs(name)
    mod, params = fx.from_onnx(path, shape={key: value.shape for key, value in inputs.items()})
    mod = bind_parameters(mod, params)
    target = resolve_target(TARGET)
    rows: dict[str, dict[str, Any]] = {}
    runs, commit = {}, commit_here()
    for version in versions:
        fused, plan, seconds = planned(mod, target, version)
        summary = report_plan(plan, str(target)).summary
        rows[version] = {
            "operators": summary.operators,
            "kernels": summary.kernels,
            "intermediate_bytes": summary.intermediate_bytes,
            "planning_seconds": seconds,
            "commit": commit,
        }
        if libraries is not None:
            path = built(fused, target, libraries, name)
            if repeat:
                runs[version] = ready(path, inputs)
    if repeat:
        with threads_apart(fx.threads()):
            latencies, failures = time_interleaved(runs, repeat=repeat)
        for version, latency in latencies.items():
            rows[version]["latency_ms"] = latency.median
        for version, failure in failures.items():
            print(f"{name}, {version}: {failure}")
    return rows


def shown(name: str, rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Print a model's rows, and return them."""
    print(f"{name:20} {'operators':>9} {'kernels':>8} {'KiB':>9} {'plan s':>7} {'ms':>8}")
    for version, row in rows.items():
        print(
            f"  {version:18} {row['operators']:9} {row['kernels']:8}"
            f" {row['intermediate_bytes'] / KIBI:9.0f} {row['planning_seconds']:7.2f}"
            f" {row.get('latency_ms', float('nan')):8.2f}",
            flush=True,
        )
    return rows


def main() -> None:
    """Measure the models named and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument(
        "models",
        nargs="*",
        default=list(MODELS),
        help=f"of {', '.join(zoo.names())}; {', '.join(MODELS)} by default",
    )
    parser.add_argument("--models", dest="folder", type=Path, default=Path("out/zoo"))
    parser.add_argument("--repeat", type=int, default=20, help="timed runs a version; 0 plans only")
    parser.add_argument(
        "--versions", nargs="+", choices=VERSIONS, default=list(VERSIONS), help="all by default"
    )
    parser.add_argument("--libraries", type=Path, help="keep what is built here, or time it")
    parser.add_argument("--json", type=Path, help="in place of the newest run's folder")
    options = parser.parse_args()
    fx.threads()
    newest = newest_run(device=describe_device())
    path = options.json or (newest / ABLATION if newest is not None else Path(ABLATION))
    with tempfile.TemporaryDirectory() as scratch:
        libraries = options.libraries or (Path(scratch) if options.repeat else None)
        found = {
            name: shown(
                name, measure(name, options.folder, options.repeat, libraries, options.versions)
            )
            for name in options.models
        }
    if options.repeat:
        before = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        with new_file(path) as written:
            text = json.dumps({**before, **found}, indent=1)
            written.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
