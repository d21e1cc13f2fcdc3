"""Tune models of the zoo on this machine, and print what it brought.

    python benchmarks/tuning.py --budget 1200 minilm ppocr-det efficientnet-b0

Each model is tuned with the budget (seconds); then its untuned and tuned builds run in turns in
this process too. The heaviest blocks are listed with the part of the machine's limit (arithmetic or
memory, both measured) that they reach. The file goes beside the newest run of the zoo, in the place
of what it says of the same models.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measured_runs import ROOT, TUNING, commit_here, newest_run

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.output_file import new_file
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.timing import threads_apart, time_interleaved
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tuning.progress import TuningProgress

MODELS = ROOT / "out" / "zoo"
TARGET = "llvm -mcpu=native"
SHOWN_BLOCKS = 12
REPEAT = 101
# What the goal asks for: this much faster, or this near the limit.
GOAL_RATIO = 1.1
GOAL_OF_LIMIT = 0.95


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help=f"of {', '.join(zoo.names())}")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds for each model")
    parser.add_argument("--tuner", default="metaschedule")
    parser.add_argument("--search", default="xgb")
    parser.add_argument("--records", type=Path, default=Path("out/tuning"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--json", type=Path, help="in place of the newest run's folder")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    fx.threads()
    newest = newest_run(device=describe_device())
    path = options.json or (newest / TUNING if newest is not None else Path(TUNING))
    for name in options.models:
        row = _tuned(name, options)
        # After each model: a later one may fail.
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        with new_file(path) as written:
            text = json.dumps({**found, name: row}, indent=1)
            written.write_text(text + "\n", encoding="utf-8")


def _tuned(name: str, options: argparse.Namespace) -> dict[str, Any]:
    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(name, MODELS / f"{name}.onnx")
    mod, params = fx.from_onnx(model.path, shape=model.shapes)
    inputs = zoo.sample_inputs(name)
    with TuningProgress(f"tuning {name}", None, options.budget) as watch:
        report = fx.tune(
            mod,
            "local",
            params,
            records=options.records,
            resume=options.resume,
            inputs=inputs,
            model=name,
            tuner=options.tuner,
            algorithm=options.search,
            budget_seconds=options.budget,
            watch=watch,
        )
    print(f"== {name}\n{report.text(SHOWN_BLOCKS)}")
    target = resolve_target(TARGET)
    sides = {
        "untuned": _executor(fx.build(mod, target, params), inputs),
        "tuned": _executor(fx.build(mod, target, params, records=options.records), inputs),
    }
    with threads_apart(fx.threads()):
        latencies, failures = time_interleaved(
            {side: executor.run for side, executor in sides.items()}, REPEAT
        )
    if failures:
        raise RuntimeError(f"{name}: {failures}")
    ratio = latencies["untuned"].median / latencies["tuned"].median
    heavy = [result for result in report.tasks if report.share(result) >= 1 / SHOWN_BLOCKS]
    near = [report.of_limit(result) or 0.0 for result in heavy]
    together = report.all_of_limit or 0.0
    is_faster = report.is_accepted and ratio >= GOAL_RATIO
    is_met = is_faster or together >= GOAL_OF_LIMIT
    print(
        f"{name}: untuned {latencies['untuned'].median:.2f} ms, tuned "
        f"{latencies['tuned'].median:.2f} ms, {ratio:.3f}x (p10-p90 "
        f"{latencies['tuned'].p10:.2f}-{latencies['tuned'].p90:.2f} ms); heavy blocks reach "
        f"{', '.join(f'{part:.0%}' for part in near) or '-'} of the limit, "
        f"all {together:.0%}; goal "
        f"{'met' if is_met else 'missed'}"
    )
    return {
        "commit": commit_here(),
        "budget_s": options.budget,
        "latency_ms": {side: latency.to_json() for side, latency in latencies.items()},
        "ratio": ratio,
        "of_limit": near,
        "report": report.to_json(),
    }


def _executor(library: Any, inputs: dict[str, np.ndarray]) -> Any:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, value in inputs.items():
        executor.set_input(name, value)
    return executor


if __name__ == "__main__":
    main()
