"""Tune published models on this machine, and print what it brought.

    python benchmarks/tuning.py --budget 1200 minilm=model.onnx ppocr-det=det.onnx

Each model is tuned with the budget (seconds); then its untuned and tuned builds run in turns in
this process too. The heaviest blocks are listed with the part of the machine's limit (arithmetic or
memory, both measured) that they reach. Inputs with dynamic shapes come from ``NAME.inputs.npz``
beside the model.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.timing import time_interleaved
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.tuning.progress import TuningProgress

TARGET = "llvm -mcpu=native"
SHOWN_BLOCKS = 12
REPEAT = 101
# What the goal asks for: this much faster, or this near the limit.
GOAL_RATIO = 1.1
GOAL_OF_LIMIT = 0.95


def main() -> None:
    """Tune and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME=FILE.onnx")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds for each model")
    parser.add_argument("--tuner", default="metaschedule")
    parser.add_argument("--search", default="xgb")
    parser.add_argument("--records", type=Path, default=Path("out/tuning"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    fx.threads()
    rows = []
    for named in options.models:
        name, _, file = named.partition("=")
        rows.append(_tuned(name, Path(file), options))
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _tuned(name: str, file: Path, options: argparse.Namespace) -> dict[str, Any]:
    known = file.parent / f"{file.stem}.inputs.npz"
    given = dict(np.load(known)) if known.is_file() else None
    shape = None if given is None else {key: value.shape for key, value in given.items()}
    mod, params = fx.from_onnx(file, shape=shape)
    inputs = given or random_inputs(inputs_of(mod, params))
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
    latencies, failures = time_interleaved(
        {side: executor.run for side, executor in sides.items()}, REPEAT
    )
    if failures:
        raise RuntimeError(f"{name}: {failures}")
    ratio = latencies["untuned"].median / latencies["tuned"].median
    heavy = [result for result in report.tasks if report.share(result) >= 1 / SHOWN_BLOCKS]
    near = [report.of_limit(result) or 0.0 for result in heavy]
    is_met = ratio >= GOAL_RATIO or (bool(near) and min(near) >= GOAL_OF_LIMIT)
    print(
        f"{name}: untuned {latencies['untuned'].median:.2f} ms, tuned "
        f"{latencies['tuned'].median:.2f} ms, {ratio:.3f}x (p10-p90 "
        f"{latencies['tuned'].p10:.2f}-{latencies['tuned'].p90:.2f} ms); heavy blocks reach "
        f"{', '.join(f'{part:.0%}' for part in near) or '-'} of the limit; goal "
        f"{'met' if is_met else 'missed'}"
    )
    return {
        "model": name,
        "latency_ms": {side: latency.to_json() for side, latency in latencies.items()},
        "ratio": ratio,
        "report": report.to_json(),
    }


def _executor(library: Any, inputs: dict[str, np.ndarray]) -> Any:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, value in inputs.items():
        executor.set_input(name, value)
    return executor


if __name__ == "__main__":
    main()
