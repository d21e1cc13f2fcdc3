"""Time the blocks of the zoo's models, template by template, against this machine's limits.

    python benchmarks/templates.py build --blocks out/blocks minilm resnet18  # no timing
    python benchmarks/templates.py time --blocks out/blocks --seconds 30  # until none is left

Each distinct block is compiled alone and timed warm, the calling thread on a core of its own. Its
time stands beside the least that its arithmetic and its bytes can take (machine_rates.py). The
second command goes on where it stopped, so that a busy machine can be had for short whiles. It
writes benchmarks/results/DATE/DEVICE/templates.json; ``page`` writes out/results/templates.md from
the newest of this machine, or from the file of ``--json``.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tvm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from machine_rates import MachineRates, measure_rates, time_kernel
from measured_runs import ROOT, TEMPLATES, commit_here, folder_of
from template_blocks import SYMBOL, ModelBlock, blocks_of, build_block, chosen, is_built, read_block
from template_page import write_page

import tvm_fusionx as fx
from tvm_fusionx import zoo
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.timing import threads_apart
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.block_work import work_of
from tvm_fusionx.tuning.arguments import arguments_of
from tvm_fusionx.tuning.task import make_task

TARGET = "llvm -mcpu=native"
MOST_BLOCKS = 60
CHOSEN = "chosen.json"
MICROSECONDS = 1e6
# Times of a block and of the machine, apart from one another: the least are kept. There are minutes
# in which waking a thread takes three times as long as in others (0.6 and 1.7 us, two cores of a
# Zen 5); in three rounds some blocks met no other.
ROUNDS = 6


def build(names: list[str], models: Path, folder: Path, most: int) -> None:
    """Plan the models, choose blocks of each template, and compile them."""
    target = resolve_target(TARGET)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[ModelBlock]] = {}
    for name in names:
        found[name] = blocks_of(name, models, folder, target)
        print(f"{name}: {len(found[name])} distinct blocks", flush=True)
    rows = chosen(found, most)
    (folder / CHOSEN).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for at, row in enumerate(rows, 1):
        try:
            build_block(folder, row["key"], target)
        except Exception as error:  # whatever the compiler raises belongs to that block
            print(f"{row['template']}: {row['model']}: {row['name']}: {error}", flush=True)
        print(f"{at} of {len(rows)} blocks", flush=True)


def described(block: dict[str, Any], folder: Path, target: Any) -> dict[str, Any]:
    """Return what one block does, no time yet."""
    func = read_block(folder, block["key"])
    shapes = make_task(func, block["template"], target).shapes
    return {**block, "shapes": list(shapes), "work": vars(work_of(func)), "us_each": []}


def timed(row: dict[str, Any], folder: Path, target: Any) -> None:
    """Time a block once more."""
    task = make_task(read_block(folder, row["key"]), row["template"], target)
    module = tvm.runtime.load_module(str((folder / f"{row['key']}.so").resolve()))
    seconds = time_kernel(module, SYMBOL, arguments_of(task))
    row["us_each"].append(float(np.median(seconds)) * MICROSECONDS)
    # Whatever else runs makes a kernel slower, for seconds at times and never faster.
    row["us"] = min(row["us_each"])


def go_on(folder: Path, path: Path, seconds: float, facts: dict[str, Any]) -> int:
    """Time blocks, those first that were timed least; return how many times are missing."""
    target = resolve_target(TARGET)
    threads = fx.threads()
    started = time.monotonic()
    run: dict[str, Any] = {**facts, "rates": None, "rates_each": [], "blocks": []}
    if path.is_file():
        run = json.loads(path.read_text(encoding="utf-8"))
    known = {row["key"] for row in run["blocks"]}
    for row in json.loads((folder / CHOSEN).read_text(encoding="utf-8")):
        if row["key"] not in known and is_built(folder, row["key"]):
            run["blocks"].append(described(row, folder, target))

    def left() -> list[dict[str, Any]]:
        waiting = [row for row in run["blocks"] if len(row["us_each"]) < ROUNDS]
        return sorted(waiting, key=lambda row: len(row["us_each"]))

    with threads_apart(threads):
        while time.monotonic() - started < seconds and (waiting := left()):
            # The machine once a round, as the blocks: measured once alone, in a slow moment, it
            # would make all of them look good.
            if len(run["rates_each"]) <= len(waiting[0]["us_each"]):
                run["rates_each"].append(measure_rates(target, threads).to_json())
                each = map(MachineRates.from_json, run["rates_each"])
                run["rates"] = functools.reduce(MachineRates.best_of, each).to_json()
            timed(waiting[0], folder, target)
    run["blocks"] = [row for row in run["blocks"] if row["us_each"]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return sum(ROUNDS - len(row["us_each"]) for row in left())


def _facts(date: str) -> dict[str, Any]:
    return {
        "date": date,
        "device": describe_device(),
        "commit": commit_here(),
        "tvm": tvm.__version__,
        "command": "python benchmarks/templates.py build; python benchmarks/templates.py time",
    }


def main() -> int:
    """Build, time, or write the page; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("what", choices=("build", "time", "page"))
    parser.add_argument("names", nargs="*", help=f"of {', '.join(zoo.names())}; all by default")
    parser.add_argument("--models", type=Path, default=ROOT / "out" / "zoo")
    parser.add_argument("--blocks", type=Path, default=ROOT / "out" / "blocks")
    parser.add_argument("--most", type=int, default=MOST_BLOCKS, help="blocks of a template")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of timing")
    parser.add_argument("--date", default=None, help="the run to go on with, as in 2026-01-31")
    parser.add_argument("--json", type=Path, help="instead of benchmarks/results/DATE/DEVICE/")
    options = parser.parse_intermixed_args()
    # TVM's operator strategies look for tuned schedules, which ours do not need.
    logging.getLogger("autotvm").setLevel(logging.ERROR)
    if options.what == "build":
        build(options.names or list(zoo.names()), options.models, options.blocks, options.most)
        return 0
    date = options.date or datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    path = options.json or folder_of(describe_device(), date) / TEMPLATES
    if options.what == "time":
        left = go_on(options.blocks, path, options.seconds, _facts(date))
        print(f"{left} times missing")
        return 0
    newest = options.json or max(
        (ROOT / "benchmarks" / "results").glob(f"*/{path.parent.name}/{TEMPLATES}"), default=path
    )
    write_page(newest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
