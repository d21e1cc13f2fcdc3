"""Measure the zoo's models beside TVM, the unfused control and other runtimes.

Writes a JSON file a model to benchmarks/results/DATE/DEVICE/, the table in README.md, the summary
in docs/results.md, and the whole run to out/results/. With a tuning budget the files go to
equal-budget/ there, and to a table of their own: a run of everything stays as it was measured. Each
model is measured in a process of its own, so that none runs in the memory that another has
fragmented.

    python benchmarks/zoo.py [MODEL ...]    # everything; --missing goes on after a stop
    python benchmarks/zoo.py --jobs 1       # one model prepared at a time, not two
    python benchmarks/zoo.py --quick        # five small models, four sides, into out/quick, no page
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fast_enough import FastEnough
from measured_runs import (
    EQUAL_BUDGET,
    LEAST_RUNS,
    RESULTS,
    ROOT,
    RUN,
    commit_here,
    folder_of,
    lacks,
)
from timed_alone import run_groups, running_clock, timed_alone

MODELS = ROOT / "out" / "zoo"
# Conversions for other runtimes, TVM's builds among them, take most of a full run: once is enough.
CONVERSIONS = ROOT / "out" / "conversions"
TARGET = "llvm -mcpu=native"
# A slow moment of a shared machine lasts seconds, as many as 50 runs of a short model's sides.
LEAST_SECONDS = 40.0

# Small models of each kind, and the runtimes that need no conversion.
QUICK_MODELS = ("ppocr-cls", "mobilenet-v1", "ppocr-rec", "resnet18", "minilm")
QUICK_SIDES = ("tvm", "unfused", "ort", "openvino")
QUICK_FOLDER = ROOT / "out" / "quick"

# Two at once fit 23 GB; a model that is killed for want of memory is measured again alone.
JOBS = 2
# The largest models take half an hour where every side converts and compiles them.
LIMIT_SECONDS = 3600
SUSTAINED_SECONDS = 30.0
# 20 ms at 200 GFLOP/s: it is measured between turns.
METER_STEPS, METER_ROUNDS = 1 << 20, 10


def measure(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Export one model, measure it, and write its result."""
    # Here and not above: the parent process only starts others.
    from tvm_fusionx import zoo
    from tvm_fusionx.errors import ModelError
    from tvm_fusionx.measuring.machine_peak import multiply_add_meter
    from tvm_fusionx.output_file import new_file
    from tvm_fusionx.report.bench.bench import bench
    from tvm_fusionx.report.peers import ONNX_PEERS, PEERS
    from tvm_fusionx.tuning.sides import split_sides

    machine = FastEnough(multiply_add_meter(TARGET, METER_STEPS, METER_ROUNDS), options.least)
    sides, tuned = split_sides(options.sides, options.budget)
    MODELS.mkdir(parents=True, exist_ok=True)
    model = zoo.export(name, MODELS / f"{name}.onnx")
    if set(sides) & (PEERS.keys() - set(ONNX_PEERS)):
        try:
            zoo.export(name, MODELS / f"{name}.pt2", "program")
        except ModelError as error:  # it exists as ONNX alone, from which those peers convert
            print(f"{name}: {error}", flush=True)
    result = bench(
        model.path,
        TARGET,
        sides,
        repeat=options.repeat,
        least_seconds=0.0 if options.quick else LEAST_SECONDS,
        inputs=zoo.sample_inputs(name),
        shape=model.shapes,
        thorough=not options.quick,
        sustained=options.sustained,
        tuned=tuned,
        conversions=CONVERSIONS,
        clock=running_clock,
        alone=lambda: _alone_and_fast(machine),
        on_turn=machine.wait,
        on_stage=lambda what: print(f"{name}: {what}", flush=True),
    )
    folder.mkdir(parents=True, exist_ok=True)
    with new_file(folder / f"{name}.json") as written:
        # Parts of one run may be of several commits.
        facts = {**result.to_json(), "commit": commit_here(), "machine": machine.to_json()}
        written.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    for side, latency in result.latency_ms.items():
        print(f"{name}: {side} {latency.median:.2f} ms ({latency.p10:.2f} - {latency.p90:.2f})")
    for side, message in result.errors.items():
        print(f"{name}: {side}: {message}")


@contextlib.contextmanager
def _alone_and_fast(machine: FastEnough) -> Iterator[None]:
    from tvm_fusionx.report.bench.timing import threads_apart
    from tvm_fusionx.threads import threads_in_use

    while True:
        with timed_alone():
            with threads_apart(threads_in_use()):
                is_fast = machine.is_fast()
            if is_fast:
                yield
                return
        # The others go on meanwhile: to build cares for no noise.
        machine.pause()


def facts_of_run(date: str, sides: tuple[str, ...], repeat: int) -> dict[str, Any]:
    """Measure the machine's peaks and return what there is to say of a run."""
    from tvm_fusionx.measuring.machine_peak import measure_machine_peak
    from tvm_fusionx.report.bench.bench import describe_device
    from tvm_fusionx.report.bench.timing import threads_apart
    from tvm_fusionx.threads import threads

    count = threads()
    with threads_apart(count):
        peak = measure_machine_peak(TARGET)
    return {
        "date": date,
        "began": _now().isoformat(timespec="seconds"),
        "device": describe_device(),
        "threads": count,
        "command": " ".join(["python", "benchmarks/zoo.py", *sys.argv[1:]]),
        "commit": commit_here(),
        "sides": list(sides),
        "repeat": repeat,
        "machine": peak.to_json(),
    }


def _options() -> argparse.Namespace:
    from tvm_fusionx import zoo
    from tvm_fusionx.report.bench.bench import SIDES
    from tvm_fusionx.tuning.sides import TUNED_SIDES, TuningBudget, split_sides

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=[], help=f"of {', '.join(zoo.names())}")
    parser.add_argument("--vs", default=None, help=f"sides, of {','.join(SIDES)}")
    parser.add_argument("--repeat", type=int, default=None, help="timed runs a side, at least")
    parser.add_argument(
        "--sustained",
        type=float,
        nargs="?",
        const=SUSTAINED_SECONDS,
        help="also run each side for so many seconds in one go, 30 by default",
    )
    parser.add_argument(
        "--tuning-budget",
        dest="budget",
        help=f"also measure {' and '.join(TUNED_SIDES)}; each may spend so much on a model, as "
        "10m, or 200 trials",
    )
    parser.add_argument("--quick", action="store_true", help="small models, quick sides, few runs")
    parser.add_argument(
        "--missing", action="store_true", help="only models that lack a side: go on after a stop"
    )
    parser.add_argument("--date", default=None, help="the run to go on with, as in 2026-01-31")
    parser.add_argument(
        "--limit",
        type=int,
        help=f"seconds a model, {LIMIT_SECONDS} and what it may tune by default, times the jobs",
    )
    parser.add_argument(
        "--jobs", type=int, default=JOBS, help="models prepared at once; each is timed alone"
    )
    parser.add_argument(
        "--least-gflops",
        dest="least",
        type=float,
        default=0.0,
        help="time only while the machine does so many multiply-adds, in GFLOP/s; wait otherwise",
    )
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.repeat = options.repeat or LEAST_RUNS
    options.sides = (
        tuple(options.vs.split(",")) if options.vs else QUICK_SIDES if options.quick else SIDES
    )
    options.words = _words(options)
    if options.budget is not None:
        options.budget = TuningBudget.parse(options.budget)
    others, tuned = split_sides(options.sides, options.budget)
    options.sides = (*others, *tuned)
    if options.limit is None:
        # Whoever tunes or is timed does so alone, and the others stand still meanwhile.
        spent = (options.budget.seconds or 0.0) * len(tuned) if options.budget is not None else 0.0
        options.limit = round((LIMIT_SECONDS + spent) * options.jobs)
    # Before anything is measured: a wrong name would be told when its turn comes, after an hour.
    if unknown := sorted(set(options.models) - set(zoo.names())):
        parser.error(f"no model {', '.join(unknown)}; the zoo has {', '.join(zoo.names())}")
    options.models = options.models or (QUICK_MODELS if options.quick else zoo.names())
    return options


def _words(options: argparse.Namespace) -> list[str]:
    """Return the options on which one model's measurement depends, as they were given."""
    words = ["--repeat", str(options.repeat), "--vs", ",".join(options.sides)]
    words += ["--quick"] if options.quick else []
    words += ["--least-gflops", str(options.least)]
    words += ["--sustained", str(options.sustained)] if options.sustained is not None else []
    return words + (["--tuning-budget", options.budget] if options.budget is not None else [])


def main() -> int:
    """Measure every model named, or all; return the number that failed."""
    from tvm_fusionx import zoo
    from tvm_fusionx.report.bench.bench import SIDES

    options = _options()
    if options.here is not None:
        for name in options.models:
            measure(name, options.here, options)
        sys.stdout.flush()
        # At once: the threads of a runtime must not keep a process that has written its result.
        os._exit(0)
    date = options.date or _now().date().isoformat()
    facts = facts_of_run(date, options.sides, options.repeat)
    results = QUICK_FOLDER if options.quick else RESULTS
    whole = folder_of(facts["device"], date, results)
    folder = whole if options.budget is None else whole / EQUAL_BUDGET
    folder.mkdir(parents=True, exist_ok=True)
    begins_anew = not options.missing and set(options.models) >= set(zoo.names())
    is_begun = (folder / RUN).is_file() and not begins_anew
    before = json.loads((folder / RUN).read_text()) if is_begun else {}
    if _goes_on(before, facts):
        # What it was begun with holds. Each model tells its commit.
        facts = {**facts, **before, "then": [*before.get("then", ()), facts["command"]]}
    told: dict[str, str] = before.get("failed", {})
    # Until it is known to hold every model, no page shows it.
    _write_facts(folder, {**facts, "failed": told, "full": False})
    models = options.models
    if options.missing:
        models = [name for name in models if name in told or lacks(folder, name, options.sides)]
    messages = _measured_apart(models, folder, options)
    failed = len(messages)
    # Where older numbers of a model are left, its failure is told beside them.
    messages = {name: told[name] for name in told if name not in models} | messages
    unknown = [
        name
        for name in zoo.names()
        if name not in messages and lacks(folder, name, SIDES, LEAST_RUNS)
    ]
    _write_facts(folder, {**facts, "failed": messages, "full": not unknown})
    if options.quick:
        from measured_runs import read_run
        from readme_table import table

        print(table(read_run(folder)))
        return failed
    if folder != whole and not (whole / RUN).is_file():
        print(f"{folder} has the results; the pages show them once {whole} has a run.")
        return failed
    if folder == whole and unknown:
        print(
            f"The pages stay as they are: {len(unknown)} models are not measured on all sides "
            f"{LEAST_RUNS} times, such as {unknown[0]}. `--missing --date {date}` goes on; "
            f"`benchmarks/results_page.py {folder}` shows what there is."
        )
        return failed
    for page in ("readme_table.py", "results_page.py"):
        subprocess.run([sys.executable, str(ROOT / "benchmarks" / page)], check=True)
    return failed


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def _goes_on(before: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Tell whether a run adds to one that was begun: no fewer sides, timed as often or more."""
    is_wider = set(before.get("sides", ())) <= set(facts["sides"])
    return is_wider and "repeat" in before and before["repeat"] <= facts["repeat"]


def _write_facts(folder: Path, facts: dict[str, Any]) -> None:
    (folder / RUN).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def _measured_apart(
    models: Sequence[str], folder: Path, options: argparse.Namespace
) -> dict[str, str]:
    """Measure each model in a process of its own; return why some failed.

    What is killed while others run, as for want of memory, is measured again alone.
    """
    command = [sys.executable, __file__]
    commands = {name: [*command, name, "--here", str(folder), *options.words] for name in models}
    environment = os.environ | {"TOPHUB_LOCATION": "NONE"}
    ended = dict(run_groups(commands, options.jobs, options.limit, environment))
    killed = [name for name, status in ended.items() if status == -signal.SIGKILL]
    if options.jobs > 1 and killed:
        again = {name: commands[name] for name in killed}
        ended |= dict(run_groups(again, 1, options.limit, environment))
    messages = {
        name: f"stopped after {options.limit} s"
        if status is None
        else f"its process ended with {status}"
        for name, status in ended.items()
        if status != 0
    }
    for name, message in messages.items():
        print(f"{name}: {message}", flush=True)
    return messages


if __name__ == "__main__":
    sys.exit(main())
