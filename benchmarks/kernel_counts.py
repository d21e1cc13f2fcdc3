"""Count kernels and the bytes between them: every operator alone, TVM's fusion, and ours.

    python benchmarks/kernel_counts.py --models out/zoo --json benchmarks/results/kernel_counts.json

Nothing is compiled to machine code, so the whole zoo takes minutes: TVM's own passes up to and with
``FuseOps`` give its kernels, our three passes ours. DNNFusion's counts are those of its Table 5,
the limits are this project's own. Bytes are what kernels write for other kernels: all results but
the model's. Planning is ``FuseByMapping`` alone; the JSON has the seconds of all passes, too.
Seconds are the processor's: the passes run on one core, and others may be busy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import ROOT, commit_here

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx._tvm.cures import let_cure
from tvm_fusionx.build.library import build_versions
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.fusion import Plan, PlannerOptions
from tvm_fusionx.passes import FuseByMapping, PackLayouts, RewriteGraph
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.schedules import resolve_target

TARGET = "llvm -mcpu=native"
MEBI = 1 << 20

# Model -> kernels in DNNFusion's Table 5 (None where it has no such model), and the most of ours.
LIMITS: dict[str, tuple[int | None, int]] = {
    "minilm": (None, 38),
    "bert-base": (216, 75),
    "distilbert": (109, 38),
    "albert": (225, 76),
    "gpt2": (254, 78),
    "mobilebert": (510, 340),
    "tinybert": (74, 27),
    "efficientnet-b0": (97, 80),
    "vgg16": (17, 17),
    "mobilenet-ssd": (71, 60),
    "yolo-v4": (135, 120),
    "unet": (82, 70),
    "c3d": (16, 16),
    "s3d": (98, 95),
    "faster-rcnn": (942, 941),
    "mask-rcnn": (981, 980),
}


@dataclass(frozen=True)
class Count:
    """What one model is cut into."""

    model: str
    operators: int
    tvm: int
    paper: int | None
    limit: int
    ours: int
    bytes_unfused: int
    bytes_tvm: int
    bytes_ours: int
    planning_seconds: float
    passes_seconds: float
    commit: str


def count_kernels(func: relay.Function) -> tuple[int, int]:
    """Return how many calls of a fused function do work, and the bytes they write for others."""
    kernels = 0
    written = 0
    leaving = set(_results(func.body))
    for expr in post_order(func.body):
        if not isinstance(expr, relay.Call) or _is_free(expr):
            continue
        kernels += 1
        if expr not in leaving:
            written += _bytes(expr.checked_type)
    return kernels, written


def _is_free(call: relay.Call) -> bool:
    attrs = call.op.attrs if isinstance(call.op, relay.Function) else None
    return attrs is not None and "relay.reshape_only" in attrs and bool(attrs["relay.reshape_only"])


def _results(body: Any) -> list[Any]:
    """Return the calls whose results are the model's, through tuples, projections, reshapes."""
    found = []
    pending = [body]
    while pending:
        expr = pending.pop()
        if isinstance(expr, relay.Tuple):
            pending.extend(expr.fields)
        elif isinstance(expr, relay.TupleGetItem):
            pending.append(expr.tuple_value)
        elif isinstance(expr, relay.Call) and _is_free(expr):
            pending.extend(expr.args)
        else:
            found.append(expr)
    return found


def _bytes(type_: Any) -> int:
    fields = type_.fields if isinstance(type_, tvm.ir.TupleType) else [type_]
    total = 0
    for field in fields:
        elements = 1
        for extent in field.shape:
            elements *= int(extent)
        data_type = tvm.DataType(field.dtype)
        total += elements * ((data_type.bits * data_type.lanes + 7) // 8)
    return total


def fused_by_tvm(mod: tvm.IRModule, target: tvm.target.Target) -> relay.Function:
    """Return ``main`` as TVM's own passes fuse it."""
    with let_cure(), tvm.transform.PassContext(opt_level=3):
        optimized, _ = relay.optimize(mod, target)
    return relay.transform.InferType()(optimized)["main"]


def fused_by_us(mod: tvm.IRModule, target: tvm.target.Target) -> tuple[relay.Function, Plan, float]:
    """Return ``main`` with our blocks, the plan, and the seconds that planning took."""
    packed = tvm.transform.Sequential([RewriteGraph(), PackLayouts(target)])(mod)
    started = time.process_time()
    fused, plans = fuse_module(packed, FuseByMapping(target).planner_options())
    seconds = time.process_time() - started
    return relay.transform.InferType()(fused)["main"], plans["main"], seconds


def count(name: str, folder: Path) -> Count:
    """Count one model of the zoo, exported into `folder` where it is not there yet."""
    path = folder / f"{name}.onnx"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        zoo.export(name, path)
    shapes = {key: value.shape for key, value in zoo.sample_inputs(name).items()}
    mod, params = fx.from_onnx(path, shape=shapes)
    mod = bind_parameters(mod, params)
    target = resolve_target(TARGET)
    started = time.process_time()
    ours, plan, planning = fused_by_us(mod, target)
    passes = time.process_time() - started
    kernels, written = count_kernels(ours)
    if kernels != plan.kernels:
        raise ValueError(f"{name}: {kernels} kernels in Relay, {plan.kernels} in the plan")
    alone, plans = fuse_module(mod, PlannerOptions(fuse=False))
    _, unfused = count_kernels(relay.transform.InferType()(alone)["main"])
    by_tvm, between = count_kernels(fused_by_tvm(mod, target))
    paper, limit = LIMITS[name]
    return Count(
        model=name,
        operators=len(plans["main"].blocks),
        tvm=by_tvm,
        paper=paper,
        limit=limit,
        ours=kernels,
        bytes_unfused=unfused,
        bytes_tvm=between,
        bytes_ours=written,
        planning_seconds=round(planning, 2),
        passes_seconds=round(passes, 2),
        commit=commit_here(),
    )


def table(counts: list[Count]) -> str:
    """Return the counts as a table in Markdown."""
    lines = [
        "| model | operators | TVM | DNNFusion | at most | ours | MiB unfused | TVM | ours | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in counts:
        sizes = [
            f"{size / MEBI:.1f}" for size in (each.bytes_unfused, each.bytes_tvm, each.bytes_ours)
        ]
        cells = [each.model, each.operators, each.tvm, each.paper or "", each.limit, each.ours]
        cells += [*sizes, f"{each.planning_seconds:.1f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def read(path: Path | None) -> dict[str, Count]:
    """Return the counts of a file that an earlier run wrote, by model."""
    if path is None or not path.is_file():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["counts"]
    return {row["model"]: Count(**row) for row in rows}


def write(path: Path, counts: list[Count]) -> None:
    """Write counts with what is needed to repeat them."""
    found = {
        "command": "python benchmarks/kernel_counts.py",
        "device": describe_device(),
        "versions": build_versions(),
        "counts": [asdict(each) for each in counts],
    }
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Count every model named, or all; return how many are over their limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", default=[], help=f"of {', '.join(LIMITS)}")
    parser.add_argument("--models", type=Path, default=ROOT / "out" / "zoo")
    parser.add_argument("--json", type=Path, help="the numbers; other models in it are kept")
    options = parser.parse_args()
    known = read(options.json)
    for name in options.names or LIMITS:
        known[name] = count(name, options.models)
        print(table([known[name]]).splitlines()[-1], flush=True)
        if options.json:
            write(options.json, [known[each] for each in LIMITS if each in known])
    counts = [known[each] for each in LIMITS if each in known]
    print(table(counts))
    return sum(each.ours > each.limit for each in counts)


if __name__ == "__main__":
    sys.exit(main())
